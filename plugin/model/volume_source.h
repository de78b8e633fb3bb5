// The facts about a volume that the node side needs. The catalog provides them; tests provide fakes.
#pragma once

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
  std::string path = {};         // of the image, directory or block device; empty: memory
  ino_t inode = 0;               // of the directory; VolumeLocation
  dev_t inode_device = 0;        // VolumeLocation
  dev_t device = 0;              // of the block device; VolumeLocation
  bool raw = false;              // a task had the block device, so it may hold data that does not show
  std::uint64_t bytes = 0;       // its size now
  std::uint64_t made_bytes = 0;  // its size on record; if `bytes` is less, the volume was cut short
  std::string fs_type;           // from CreateVolume; never empty
  std::optional<Propagation> propagation = std::nullopt;  // of its targets, from CreateVolume
  VolumeTuning tuning = {};
  bool block_only = false;      // CreateVolumeSpec::block_only
  std::string problem = {};     // VolumeLocation::problem
  std::string unfinished = {};  // VolumeLocation::unfinished
  std::string carrier = {};     // VolumeLocation::carrier; empty: it is not encrypted
};

// The image of an encrypted volume, or else the path of the volume or snapshot. VolumeLocation, NodeVolume.
template <typename Place>
const std::string& StorageOf(const Place& place) {
  return place.carrier.empty() ? place.path : place.carrier;
}

// FAILED_PRECONDITION: mount access to a volume that was created for block access only. It is for calls of the node,
// because Docker Swarm asks ControllerPublishVolume for mount access to each volume, and that mounts nothing.
absl::Status CheckMode(const std::string& id, bool block_only, const Capability& capability);

// FAILED_PRECONDITION: the volume is smaller than its recorded size. A smaller filesystem, device or copy would hide
// that data is lost. `whose`: "volume vol-…", "snapshot snap-…". UNAVAILABLE: NodeVolume::unfinished.
absl::Status CheckWhole(const NodeVolume& volume);
absl::Status CheckWhole(const std::string& whose, const std::string& path, std::uint64_t bytes,
                        std::uint64_t made_bytes);

class VolumeSource {
 public:
  virtual ~VolumeSource() = default;

  // NOT_FOUND: the id is unknown, malformed or being deleted. FAILED_PRECONDITION: the plugin was not started with its
  // pool.
  virtual absl::StatusOr<NodeVolume> Find(const std::string& id) = 0;

  // Whether Find knows the volume, with the same two errors. Its image may be missing, or hidden by the host.
  virtual absl::Status Knows(const std::string& id) { return Find(id).status(); }

  // UNAVAILABLE: the server of the volume's pool is known not to answer. It asks nobody.
  virtual absl::Status CheckAnswers(const std::string& /*id*/) { return absl::OkStatus(); }

  // Before the volume is mounted. Where many nodes can use it, the use is put on record, for the other nodes.
  // FAILED_PRECONDITION: another node has the volume of a shared pool, or uses it in a way that leaves no room.
  virtual absl::Status BeginUse(const std::string& /*id*/, const Capability& /*capability*/, bool /*read_only*/) {
    return absl::OkStatus();
  }
  // Takes that record away, unless the volume is mounted on this host. The caller holds the volume's lock.
  virtual absl::Status EndUse(const std::string& /*id*/) { return absl::OkStatus(); }
  // The same when the pool is reconciled, which is soon. For an end that has failed.
  virtual void EndUseLater(const std::string& /*id*/) {}

  // Backend::NoteRawUse of the volume's pool.
  virtual absl::Status NoteRawUse(const std::string& /*id*/, bool /*read_only*/) { return absl::OkStatus(); }

  // Backend::PassphraseOr of the volume's pool.
  virtual absl::StatusOr<std::string> PassphraseOf(const std::string& /*id*/, const std::string& given) {
    return given;
  }

  // Backend::KnownDevices of all pools, and Backend::WaitFor of the volume's pool.
  virtual std::vector<KnownDevice> KnownDevices() { return {}; }
  virtual void WaitFor(const std::string& /*id*/, std::chrono::steady_clock::time_point /*until*/) {}
};

}  // namespace mooring
