// Parses --pool: the pools, their directories and their limits.
#ifndef MOORING_PLUGIN_CONFIG_POOL_CONFIG_H_
#define MOORING_PLUGIN_CONFIG_POOL_CONFIG_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "plugin/backends/backend.h"

namespace mooring {

struct PoolConfig {
  std::string name;
  BackendKind kind = BackendKind::kImage;
  std::string path = {};    // directory of the volumes; empty: in the state directory. device: directory of the links
  std::string match = {};   // device: pattern of the names of links, fnmatch(3)
  std::uint64_t bytes = 0;  // tmpfs: size of all its volumes together
  std::optional<double> overcommit = std::nullopt;  // Pool::overcommit
};

// Each text is like "name=fast,backend=image,path=/srv/fast,overcommit=2". The result always has the default pool.
// INVALID_ARGUMENT names the pool, the key and its valid values.
absl::StatusOr<std::vector<PoolConfig>> ParsePools(const std::vector<std::string>& texts);

}  // namespace mooring

#endif  // MOORING_PLUGIN_CONFIG_POOL_CONFIG_H_
