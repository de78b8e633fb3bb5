// Text from other programs, made fit to be stored and sent.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace mooring {

// Replaces bytes that are not UTF-8 by U+FFFD: a protobuf string that contains other bytes cannot be parsed again. Cuts
// text of more than `most` bytes between two characters, and ends it with "…".
std::string CleanText(std::string_view text, std::size_t most = 4096);

}  // namespace mooring
