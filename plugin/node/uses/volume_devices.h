// The loop devices of raw image volumes, and of read-only raw targets: attaches, holds, changes and detaches them. The
// kernel keeps no device whose node is only bound, so a process holds it open (mounter/loop/device_holder.h).
//
// Each volume has one writable device. All read-only targets share a second, read-only device on top of the first one,
// or on top of the block device. A read-only bind of a device node alone does not prevent writes.
//
// It keeps no state: labels name the volume of a device. The caller holds the volume's lock. Errors: CheckNoneHangs,
// and those of the mounter.
#pragma once

#include <string>
#include <vector>

#include "plugin/model/volume_source.h"
#include "plugin/node/uses/node_store.h"

namespace mooring {

class VolumeDevices {
 public:
  VolumeDevices(Mounter& mounter, VolumeSource& source, NodeStore& store)
      : mounter_(mounter), source_(source), store_(store) {}

  // Attaches the writable device of an image, or finds it, and holds it open.
  absl::StatusOr<LoopInfo> Attach(const NodeVolume& volume);

  // Attaches or finds the read-only device on top of `device`, and tunes it.
  absl::StatusOr<LoopInfo> AttachReadOnly(const NodeVolume& volume, const std::string& device);

  // `losetup -d` on a held device makes the kernel remove the device with its last user. This undoes that.
  absl::Status HoldAgain(const NodeVolume& volume, const LoopInfo& loop);

  // Holds the read-only device open if the targets on record allow it. `gone`: a path whose record no longer counts.
  absl::Status HoldReadOnly(const std::string& volume_id, const std::string& gone = "");

  // Holds all devices of the volume among `loops` open. The processes that held them may have ended, for example with
  // their container.
  absl::Status HoldAll(const std::string& volume_id, const std::vector<LoopInfo>& loops);

  // Detaches the devices that nothing needs. Staging paths on record, calls under way and mounts of the device node
  // need them. It reads the mount table once. `gone`: a path whose record no longer counts.
  absl::Status Release(const std::string& volume_id, const std::string& gone = "");

  absl::Status Resize(const std::string& volume_id);  // to the size of the file or device below
  absl::Status Tune(const NodeVolume& volume, const LoopInfo& loop);
  absl::Status TuneAll(const NodeVolume& volume);

 private:
  struct BlockTargets {  // on record
    bool readers = false;
    bool writers = false;
  };
  absl::StatusOr<BlockTargets> BlockTargetsOf(const std::string& volume_id, const std::string& gone = "");
  absl::StatusOr<std::vector<LoopInfo>> FindAnswering(const std::string& volume_id);
  absl::Status DetachUnbound(const std::string& volume_id, const std::vector<LoopInfo>& loops,
                             const std::vector<ListedMount>& mounts, bool needed);
  absl::Status DeleteStaleAdopted(const std::vector<VolumeUse>& uses, const std::vector<ListedMount>& mounts);

  Mounter& mounter_;
  VolumeSource& source_;
  NodeStore& store_;
};

// DEADLINE_EXCEEDED: a device of the volume does not answer.
absl::Status CheckNoneHangs(const std::string& volume_id, const std::vector<LoopInfo>& loops);

// Logs a failed attempt (`held`) to hold the volume's devices open.
void WarnIfNotHeld(const std::string& volume_id, const absl::Status& held);

}  // namespace mooring
