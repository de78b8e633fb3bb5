// Reads small files that the user names.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace mooring::cli {

// Reads the whole file; "-" is the standard input. INVALID_ARGUMENT: more than 1 MiB. Errors do not name the path.
absl::StatusOr<std::string> ReadFile(const std::string& path);

}  // namespace mooring::cli
