// The directories of the plugin at its start: the state directory, the directories of pools on disk, and the mount
// roots.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "plugin/config/config.h"

namespace mooring {

// Makes the missing directories for the user of --user (0700), and checks all of them. The result has their real paths:
// the mount helper follows no symbolic links. An existing directory never changes its owner.
// INVALID_ARGUMENT: the directory of one pool lies in that of another.
// FAILED_PRECONDITION: a directory belongs to another user (the message has the chown command), or others may write in
// it, or the user may not. With --require-directories also: it is missing.
absl::StatusOr<Config> PrepareDirectories(Config config);

// FAILED_PRECONDITION: this process may not write in the directory, or its filesystem is read-only.
absl::Status CheckWritable(const std::string& directory, std::string_view what);

// Whether a plugin without a catalog is new. With a lost catalog, the plugin would answer that its volumes do not
// exist, and orchestrators would forget them. FAILED_PRECONDITION: volumes or snapshots lie in the directory of a pool.
// A shared pool has a catalog of its own, with the volumes of no other pool.
absl::Status CheckBeginsEmpty(const std::string& catalog, const Config& config);
absl::Status CheckSharedBeginsEmpty(const std::string& catalog, const PoolConfig& pool);

// Resolves the symbolic links on the way to each --mount-root: afterwards `mount_roots` has real paths, and
// `root_links` has the paths with links. Logs a warning for a given root that does not exist. FAILED_PRECONDITION: a
// given root is no directory, leads through a link that another user can replace, or lies where no target may be.
absl::Status ResolveMountRoots(Config& config);

}  // namespace mooring
