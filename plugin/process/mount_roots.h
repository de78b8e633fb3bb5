// The directories of --mount-root at the start.
#pragma once

#include "absl/status/status.h"
#include "plugin/config/config.h"

namespace mooring {

// Resolves the symbolic links on the way to each mount root: afterwards `mount_roots` has real paths, and `root_links`
// has the paths with links. Logs a warning for a given root that does not exist.
// FAILED_PRECONDITION: a given root is no directory, leads through a link that another user can replace, or lies where
// no target may be.
absl::Status ResolveMountRoots(Config& config);

}  // namespace mooring
