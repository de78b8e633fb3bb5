// What the node side needs to know of a volume. The catalog gives it; tests give their own.
#ifndef MOORING_PLUGIN_MODEL_VOLUME_SOURCE_H_
#define MOORING_PLUGIN_MODEL_VOLUME_SOURCE_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "mounter/mounter.h"
#include "plugin/model/backend_traits.h"
#include "plugin/model/capability.h"
#include "plugin/model/volume_tuning.h"

namespace mooring {

struct NodeVolume {
  std::string id;
  BackendKind kind = BackendKind::kImage;
  std::string path = {};         // the image file, the directory, the block device; empty: memory
  ino_t inode = 0;               // of the directory, and
  dev_t device = 0;              // of the block device: VolumeLocation
  std::uint64_t bytes = 0;       // its size now
  std::uint64_t made_bytes = 0;  // what it was made or grown to: more than `bytes`, and it was cut short
  std::string fs_type;           // asked for when it was created; never empty
  std::optional<Propagation> propagation = std::nullopt;  // of its targets, asked for when it was created
  VolumeTuning tuning = {};
  bool block_only = false;  // CreateVolumeSpec::block_only
};

// FAILED_PRECONDITION: mount access to a volume that was made for block access only. For the calls of the node: Docker
// Swarm asks ControllerPublishVolume for mount access to each volume, and nothing is mounted by that.
absl::Status CheckMode(const std::string& id, bool block_only, const Capability& capability);

// FAILED_PRECONDITION: smaller than it was made. A smaller filesystem on what is left, a smaller device, or a copy of
// it would hide that data is lost. `whose`: "volume vol-…", "snapshot snap-…".
absl::Status CheckWhole(const NodeVolume& volume);
absl::Status CheckWhole(const std::string& whose, const std::string& path, std::uint64_t bytes,
                        std::uint64_t made_bytes);

class VolumeSource {
 public:
  virtual ~VolumeSource() = default;

  // NOT_FOUND for an id that is unknown, malformed or being deleted.
  virtual absl::StatusOr<NodeVolume> Find(const std::string& id) = 0;

  // Backend::KnownDevices and WaitFor, of all pools and of the volume's.
  virtual std::vector<KnownDevice> KnownDevices() { return {}; }
  virtual void WaitFor(const std::string& /*id*/, std::chrono::steady_clock::time_point /*until*/) {}
};

}  // namespace mooring

#endif  // MOORING_PLUGIN_MODEL_VOLUME_SOURCE_H_
