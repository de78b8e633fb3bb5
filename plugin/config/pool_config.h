// Parses --pool: the pools, their directories and their limits.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "plugin/backends/interface/backend_type.h"

namespace mooring {

// Each text is like "name=fast,backend=image,path=/srv/fast,overcommit=2". The result always has the default pool.
// INVALID_ARGUMENT names the pool, the key and its valid values.
absl::StatusOr<std::vector<PoolConfig>> ParsePools(const std::vector<std::string>& texts);

}  // namespace mooring
