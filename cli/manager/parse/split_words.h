// A command line as one string.
#ifndef MOORING_CLI_MANAGER_PARSE_SPLIT_WORDS_H_
#define MOORING_CLI_MANAGER_PARSE_SPLIT_WORDS_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace mooring::cli::manager_area {

// Its words, as a POSIX shell splits and unquotes them: '…', "…", \. Nothing is expanded: there is no shell, and $HOME
// or * stand for themselves. INVALID_ARGUMENT: a quote that is not closed, a backslash at the end, no word at all.
absl::StatusOr<std::vector<std::string>> SplitWords(std::string_view line);

}  // namespace mooring::cli::manager_area

#endif  // MOORING_CLI_MANAGER_PARSE_SPLIT_WORDS_H_
