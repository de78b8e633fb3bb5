// What somebody else wrote, as text that can be stored and sent.
#ifndef MOORING_BASE_TEXT_CLEAN_TEXT_H_
#define MOORING_BASE_TEXT_CLEAN_TEXT_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace mooring {

// Bytes that are not UTF-8 become U+FFFD: a protobuf string with others in it cannot be read again. What is longer than
// `most` bytes is cut there, never inside a character, and ends in "…".
std::string CleanText(std::string_view text, std::size_t most = 4096);

}  // namespace mooring

#endif  // MOORING_BASE_TEXT_CLEAN_TEXT_H_
