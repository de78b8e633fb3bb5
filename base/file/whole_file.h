// Reads small files.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace mooring {

// Reads the whole file. NOT_FOUND: the file does not exist. Every other failure keeps its own code, so that an
// unreadable file is never mistaken for a missing one. (A std::ifstream does not distinguish them.)
absl::StatusOr<std::string> ReadWholeFile(const std::string& path);

// For files of /proc and /sys. "" if the file cannot be read.
std::string FirstLine(const std::string& path);

}  // namespace mooring
