// Checks that a plugin without a catalog is new. With a lost catalog, the plugin would answer that its volumes do not
// exist, and orchestrators would forget them.
#ifndef MOORING_PLUGIN_PROCESS_NEW_CATALOG_H_
#define MOORING_PLUGIN_PROCESS_NEW_CATALOG_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "plugin/config/pool_config.h"

namespace mooring {

// FAILED_PRECONDITION: volumes or snapshots lie in the directory of a pool.
absl::Status CheckBeginsEmpty(const std::string& catalog, const std::vector<PoolConfig>& pools,
                              const std::string& state_dir);

}  // namespace mooring

#endif  // MOORING_PLUGIN_PROCESS_NEW_CATALOG_H_
