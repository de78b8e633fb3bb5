// A command line in one string.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace mooring::cli::manager_area {

// Splits and unquotes the words as a POSIX shell does: '…', "…", \. There is no shell, so $HOME and * are not expanded.
// INVALID_ARGUMENT: a quote that is not closed, a backslash at the end, or no words.
absl::StatusOr<std::vector<std::string>> SplitWords(std::string_view line);

}  // namespace mooring::cli::manager_area
