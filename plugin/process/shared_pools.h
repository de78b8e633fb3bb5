// Opens the shared pools at the start: pools in a directory that several hosts mount.
//
//   <pool>/.mooring/catalog.db   the records of its volumes and snapshots, and the nodes that have the pool
//   <pool>/.mooring/lock         the locks of names and ids, between the hosts
//   <pool>/.mooring/nodes        a lock for each node, which its plugins hold while they run
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file/unique_fd.h"
#include "base/keyed_lock.h"
#include "plugin/backends/interface/availability.h"
#include "plugin/catalog/store/catalog_store.h"
#include "plugin/config/config.h"

namespace mooring {

// Checks that the filesystem of a shared pool has locks that work between hosts.
// FAILED_PRECONDITION: the directory lies on FUSE, or on a mount whose locks stay on this host (`nolock` of nfs(5)).
absl::Status CheckSharedFilesystem(const std::string& directory);

// The part about mount options. `mount_info`: the text of /proc/self/mountinfo, proc(5). `device`: st_dev of the
// directory, for the mounts of its filesystem.
absl::Status CheckLocksReachOthers(const std::string& mount_info, dev_t device, const std::string& directory);

using SharedTags = std::map<std::string, std::string>;  // the tag of each shared pool, by its name

struct SharedPools {
  SharedTags tags;
  std::vector<UniqueFd> presence;  // the locks of this node; keep them open while the plugin runs
  // The pools that the plugin mounts itself, by name. Their files are added, and opened later (OpenMountedPool).
  std::map<std::string, std::shared_ptr<Availability>> availability;
};

// Makes the directory of the records of a pool if it is missing.
absl::Status MakeSharedRecords(const std::string& directory);

// The lock of starts of a pool that the plugin mounts itself. `records` is its directory of records. ABORTED: another
// plugin starts there for longer than `patience`.
absl::StatusOr<UniqueFd> LockStart(const std::string& records, std::chrono::seconds patience);

// Opens such a pool each time that it was mounted at `pool.path`: its file in the catalog, and this node in its nodes.
// The caller holds the lock of starts. Returns the lock of this node, as SharedPools::presence. Errors:
// OpenSharedPools.
absl::StatusOr<UniqueFd> OpenMountedPool(const Config& config, const std::string& boot_id, const PoolConfig& pool,
                                         CatalogStore& catalog);

// Adds their files to the catalog and to the locks, and adds this node to their nodes.
// `boot_id`: of this host.
// FAILED_PRECONDITION: the filesystem of a pool has no locks between hosts. Or the pool has images and no catalog. Or
// the plugin of another host runs with this node id.
absl::StatusOr<SharedPools> OpenSharedPools(const Config& config, const std::string& boot_id, CatalogStore& catalog,
                                            KeyedLocks& locks);

}  // namespace mooring
