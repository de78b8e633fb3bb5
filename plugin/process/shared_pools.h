// Opens the shared pools at the start: pools in a directory that several hosts mount.
//
//   <pool>/.mooring/catalog.db   the records of its volumes and snapshots, and the nodes that have the pool
//   <pool>/.mooring/lock         the locks of names and ids, between the hosts
#pragma once

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "base/keyed_lock.h"
#include "plugin/catalog/store/catalog_store.h"
#include "plugin/config/config.h"

namespace mooring {

using SharedTags = std::map<std::string, std::string>;  // the tag of each shared pool, by its name

// Adds their files to the catalog and to the locks, and adds this node to their nodes.
// FAILED_PRECONDITION: the filesystem of a pool has no locks between hosts, or the pool has images and no catalog.
absl::StatusOr<SharedTags> OpenSharedPools(const Config& config, CatalogStore& catalog, KeyedLocks& locks);

}  // namespace mooring
