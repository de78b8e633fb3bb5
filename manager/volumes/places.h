// The directories that the manager makes for plugins below its root, and removes again when they are empty.
#ifndef MOORING_MANAGER_VOLUMES_PLACES_H_
#define MOORING_MANAGER_VOLUMES_PLACES_H_

#include <string>

#include "absl/status/status.h"

namespace mooring::manager {

// It and those above it, 0700. There already is OK.
absl::Status MakeDirectories(const std::string& path);

// `path` and those above it, up to `top`, which stays: the next volume is to find it, for on a busy disk making one
// waits; the first that is not empty ends it. Missing is as good as removed.
void RemoveEmptyDirectories(std::string path, const std::string& top);

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_VOLUMES_PLACES_H_
