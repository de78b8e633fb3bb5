// The quotas of a pool of directories: the key `quota`, and the check at the start.
#pragma once

#include "absl/status/status.h"
#include "plugin/backends/interface/backend_type.h"
#include "plugin/model/backend_traits.h"

namespace mooring {

absl::Status CompleteDirectoryPool(PoolConfig& pool);

// The abilities of the kind, with those that its quota adds.
void AddQuotaAbilities(const PoolConfig& pool, BackendTraits& traits);

// FAILED_PRECONDITION: with quota=enforced, the filesystem of the pool enforces no limits, or the directory of the pool
// has a project itself. A pool with volumes is served in any case: the problem is in the condition of its volumes.
absl::Status CheckDirectoryPool(const PoolConfig& pool, bool is_first_start);

}  // namespace mooring
