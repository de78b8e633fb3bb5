// The pools of volumes: each has a name, a backend and a rule for how much may be promised of it. CreateVolume chooses
// one with the parameter `pool`; the record of a volume names its own, and snapshots lie in that of their source.
#ifndef MOORING_PLUGIN_POOLS_H_
#define MOORING_PLUGIN_POOLS_H_

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "plugin/backend.h"

namespace mooring {

// Volumes of before there were pools are in it, and those that ask for none.
inline constexpr std::string_view kDefaultPool = "default";

struct Pool {
  std::string name;
  BackendKind kind = BackendKind::kImage;
  std::unique_ptr<Backend> backend;

  const BackendTraits& traits() const { return TraitsOf(kind); }
};

class Pools {
 public:
  // One of them is the default pool.
  explicit Pools(std::vector<Pool> pools) : pools_(std::move(pools)) {}

  // INVALID_ARGUMENT names those that there are.
  absl::StatusOr<const Pool*> Find(std::string_view name) const;

  const std::vector<Pool>& all() const { return pools_; }

 private:
  std::vector<Pool> pools_;
};

}  // namespace mooring

#endif  // MOORING_PLUGIN_POOLS_H_
