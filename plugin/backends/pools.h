// The pools of volumes: each has a name, a backend and a limit. CreateVolume chooses one with the parameter `pool`. The
// record of a volume names its pool, and snapshots are in the pool of their source.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "plugin/backends/registry.h"

namespace mooring {

struct Pool {
  std::string name;
  BackendKind kind = BackendKind::kImage;
  std::unique_ptr<Backend> backend = nullptr;

  // The sum of the sizes of its volumes and snapshots is at most this many times BackendCapacity::total. None: only
  // each single volume must fit into the free space.
  std::optional<double> overcommit = std::nullopt;

  // The tag of a pool that several hosts share (plugin/model/volume_id.h). Empty: only this host has the pool.
  std::string tag = {};

  // "server:/export" and its options, if the plugin mounts the pool itself.
  std::string source = {};
  std::vector<FilesystemOption> options = {};
  std::shared_ptr<Availability> availability = nullptr;  // of such a pool

  std::optional<BackendTraits> own_traits = std::nullopt;  // TraitsOf its PoolConfig; empty: those of its kind

  bool shared() const { return !tag.empty(); }
  const BackendTraits& traits() const { return own_traits ? *own_traits : TraitsOf(kind); }
};

class Pools {
 public:
  // `pools` has the default pool.
  explicit Pools(std::vector<Pool> pools) : pools_(std::move(pools)) {}

  // INVALID_ARGUMENT: there is no such pool; the error names the pools.
  absl::StatusOr<const Pool*> Find(std::string_view name) const;

  const std::vector<Pool>& all() const { return pools_; }

  // Whether one pool has the ability. CSI capabilities are of the driver, not of a volume.
  bool AnyCan(bool BackendTraits::*ability) const;

 private:
  std::vector<Pool> pools_;
};

// The reason why a volume of such a pool cannot be a raw block device.
std::string NoBlockAccess(std::string_view pool, BackendKind kind);

// INVALID_ARGUMENT: the request asks for the other kind of pool than this one, or has a passphrase, which would be of
// no use here. `asked`: its parameter `encrypted`; none: it has none.
absl::Status CheckEncryption(std::optional<bool> asked, bool has_passphrase, const Pool& pool, const Pools& pools);

// The pools of a plugin without --pool, for parsing requests. They have no backend.
const Pools& DefaultPoolOnly();

}  // namespace mooring
