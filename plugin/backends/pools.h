// The pools of volumes: each has a name, a backend and a rule for how much may be promised of it. CreateVolume chooses
// one with the parameter `pool`; the record of a volume names its own, and snapshots lie in that of their source.
#ifndef MOORING_PLUGIN_BACKENDS_POOLS_H_
#define MOORING_PLUGIN_BACKENDS_POOLS_H_

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "plugin/backends/backend.h"

namespace mooring {

struct Pool {
  std::string name;
  BackendKind kind = BackendKind::kImage;
  std::unique_ptr<Backend> backend = nullptr;

  // The sizes of its volumes and snapshots together are at most this many times BackendCapacity::total; none: only a
  // single one has to fit what is free.
  std::optional<double> overcommit = std::nullopt;

  const BackendTraits& traits() const { return TraitsOf(kind); }
};

class Pools {
 public:
  // One of them is the default pool.
  explicit Pools(std::vector<Pool> pools) : pools_(std::move(pools)) {}

  // INVALID_ARGUMENT names those that there are.
  absl::StatusOr<const Pool*> Find(std::string_view name) const;

  const std::vector<Pool>& all() const { return pools_; }

  // Whether a driver with these pools can: capabilities are those of the driver, not of a volume.
  bool AnyCan(bool BackendTraits::*ability) const;

 private:
  std::vector<Pool> pools_;
};

// Why a volume of such a pool cannot be a raw block device.
std::string NoBlockAccess(std::string_view pool, BackendKind kind);

// What there is without --pool, to read requests by: no backend behind it.
const Pools& DefaultPoolOnly();

}  // namespace mooring

#endif  // MOORING_PLUGIN_BACKENDS_POOLS_H_
