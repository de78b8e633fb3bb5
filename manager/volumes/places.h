// The directories that the manager makes for plugins below its root, and removes once they are empty.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace mooring::manager {

// Makes `path` and its parents, with mode 0700. OK if they exist.
absl::Status MakeDirectories(const std::string& path);

// Removes `path` and its parents below `top`, up to the first that is not empty. `top` stays, because making it again
// for the next volume waits for the disk. OK if they are missing.
void RemoveEmptyDirectories(std::string path, const std::string& top);

}  // namespace mooring::manager
