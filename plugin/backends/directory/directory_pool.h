// The quotas of a pool of directories: the key `quota`, and the check at the start.
#pragma once

#include "absl/status/status.h"
#include "plugin/backends/interface/backend_type.h"
#include "plugin/model/backend_traits.h"

namespace mooring {

absl::Status CompleteDirectoryPool(PoolConfig& pool);

// The abilities of the kind, with those that its quota adds.
void AddQuotaAbilities(const PoolConfig& pool, BackendTraits& traits);

// For a pool with quota=enforced. UNAVAILABLE: its directory is missing or empty, and its filesystem enforces no
// limits. So it is, where a disk is not mounted.
absl::Status CheckDiskIsMounted(const std::string& path);

// For quota=enforced. FAILED_PRECONDITION: the filesystem of the pool enforces no limits, or its directory gives a
// project to what is made in it. UNAVAILABLE: as CheckDiskIsMounted, but not at the first start. A pool with volumes is
// served in any case: the problem is in the condition of its volumes.
absl::Status CheckDirectoryPool(const PoolConfig& pool, bool is_first_start);

}  // namespace mooring
