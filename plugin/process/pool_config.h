// --pool: which pools there are, where they lie, and how much may be promised of them.
#ifndef MOORING_PLUGIN_PROCESS_POOL_CONFIG_H_
#define MOORING_PLUGIN_PROCESS_POOL_CONFIG_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/file/real_directory.h"
#include "plugin/backends/interface/backend_type.h"
#include "plugin/process/handover.h"

namespace mooring {

// "name=fast,backend=image,path=/srv/fast,overcommit=2" for each. The default pool is among them, given or not.
// INVALID_ARGUMENT says which key of which pool, and what it may be.
absl::StatusOr<std::vector<PoolConfig>> ParsePools(const std::vector<std::string>& texts);

// The directories of volumes, opened.
struct PoolDirectory {
  std::string pool;
  Holding holding;
  RealDirectory directory;
};

struct FoundPools {
  std::vector<PoolConfig> pools;  // their paths are the real ones
  std::vector<PoolDirectory> directories;

  std::vector<std::string> paths() const;
};

// Makes the directories of volumes where they are missing (0700), in parents that are there. `state_dir` is real.
// INVALID_ARGUMENT: one lies in another. FAILED_PRECONDITION: one is missing, and none is to be made.
absl::StatusOr<FoundPools> FindPools(std::vector<PoolConfig> pools, const std::string& state_dir,
                                     IfMissing if_missing = IfMissing::kMake);

// They become the user's. FAILED_PRECONDITION: others may write in one, or it holds more than ours, or the plugin may
// not.
absl::Status OwnPools(const FoundPools& found, const Handover& handover);

}  // namespace mooring

#endif  // MOORING_PLUGIN_PROCESS_POOL_CONFIG_H_
