// The quotas of a pool of directories: the key `quota`, and the check at the start.
#pragma once

#include "absl/status/status.h"
#include "plugin/backends/interface/backend_type.h"
#include "plugin/model/backend_traits.h"

namespace mooring {

absl::Status CompleteDirectoryPool(PoolConfig& pool);

// The abilities of the kind, with those that its quota adds.
void AddQuotaAbilities(const PoolConfig& pool, BackendTraits& traits);

// For quota=enforced. FAILED_PRECONDITION: the filesystem of the pool enforces no limits, or its directory gives a
// project to what is made in it. UNAVAILABLE: the same at a later start than the first, and the directory is missing or
// empty, as where a disk is not mounted. A pool with volumes is served in any case: the problem is in the condition of
// its volumes.
absl::Status CheckDirectoryPool(const PoolConfig& pool, bool is_first_start);

}  // namespace mooring
