// Small files that the user names.
#ifndef MOORING_CLI_FLAGS_READ_FILE_H_
#define MOORING_CLI_FLAGS_READ_FILE_H_

#include <string>

#include "absl/status/statusor.h"

namespace mooring::cli {

// All of it, 1 MiB at most: what is larger is INVALID_ARGUMENT. "-" is the standard input. Errors do not name the path.
absl::StatusOr<std::string> ReadFile(const std::string& path);

}  // namespace mooring::cli

#endif  // MOORING_CLI_FLAGS_READ_FILE_H_
