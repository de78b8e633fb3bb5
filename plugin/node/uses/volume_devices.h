// The raw devices of block volumes: attaches, holds, changes and detaches them (mounter/loop/raw_device.h).
//
//   image ◀─ its device ◀─┬─ writable targets                     A read-only bind of a device node does not prevent
//                         └─ read-only device ◀─ one target       writes, so each read-only target has a device of its
//   disk  ◀─────────────── read-only device ◀─ one target         own: its task could exchange the file of a shared
//   one.
//
//   image ◀─ loop device ◀─ mapping ◀─┬─ writable targets         An encrypted volume (uses/encryption.h). The end of
//                                     └─ read-only device         the last raw use closes the mapping. The loop device
//                                                                 below goes with it, and is only resized here.
//
// A disk, logical volume or mapping with a writable target is held as well (LoopDevices::HoldDevice).
//
// A volume has writable or read-only targets, and never both at once. The kernel has a cache for each device, so that a
// reader would see old data.
//
// It keeps no state: labels name the volume of a device. The caller holds the volume's lock. Errors: CheckNoneHangs,
// and those of the mounter.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "plugin/model/volume_source.h"
#include "plugin/node/uses/node_store.h"
#include "plugin/node/uses/volume_finder.h"

namespace mooring {

class VolumeDevices {
 public:
  VolumeDevices(Mounter& mounter, VolumeSource& source, NodeStore& store)
      : mounter_(mounter), source_(source), store_(store) {}

  // Attaches the writable device of an image, or finds it, and holds it.
  absl::StatusOr<LoopInfo> Attach(const NodeVolume& volume);

  // Attaches a read-only device on top of `device`, and tunes it.
  absl::StatusOr<LoopInfo> AttachReadOnly(const NodeVolume& volume, const std::string& device);

  // Undoes what a task or `losetup -d` did to the volume's device. FAILED_PRECONDITION: the image has another device,
  // or was replaced.
  absl::Status HoldAgain(const NodeVolume& volume, const LoopInfo& loop);

  // Holds the volume's disk, logical volume or mapping. OK for other volumes.
  absl::Status Hold(const NodeVolume& volume);

  // Holds all devices of the volume, those among `loops` too. Their holders may have ended, for example with their
  // container.
  absl::Status HoldAll(const std::string& volume_id, const std::vector<LoopInfo>& loops);

  // Writes what tasks wrote to the image or disk. OK if the volume has no device, or its image or disk is missing, or
  // it is encrypted and not open.
  absl::Status Flush(const std::string& volume_id);

  // Detaches the devices that nothing needs. Staging paths on record, calls under way and mounts of the device node
  // need them. It reads the mount table once. `gone`: a path whose record no longer counts.
  //
  // A mapping without a raw use is flushed and closed, and a disk or logical volume is not held any more. Targets on
  // record need them, too: their numbers are used again, so a node that stays behind would lead to another volume.
  absl::Status Release(const std::string& volume_id, const std::string& gone = "") {
    return ReleaseAll(volume_id, gone, RawData::kPerhaps);
  }

  // The same for a mapping that was not raw since it was opened: nothing is flushed, because no task wrote to it.
  absl::Status ReleaseUnwritten(const std::string& volume_id) { return ReleaseAll(volume_id, "", RawData::kNone); }

  // The same after the end of a mounted filesystem. The mapping goes with it, unless an earlier close failed. OK for
  // volumes that are not encrypted.
  absl::Status ReleaseMapping(const std::string& volume_id);

  absl::Status Resize(const NodeVolume& volume);  // to the size of the file or device below
  absl::Status Tune(const NodeVolume& volume, const LoopInfo& loop);
  absl::Status TuneAll(const NodeVolume& volume);

 private:
  absl::StatusOr<std::vector<LoopInfo>> DevicesOf(const std::string& volume_id, std::vector<LoopInfo> loops);
  absl::StatusOr<std::set<dev_t>> OwnDevicesOf(const std::string& volume_id);
  absl::StatusOr<std::vector<LoopInfo>> FindAnswering(const std::string& volume_id);
  absl::StatusOr<bool> DetachUnbound(const std::vector<LoopInfo>& loops, const std::set<std::string>& bound,
                                     bool needed);
  enum class RawData { kNone, kPerhaps };
  absl::Status ReleaseAll(const std::string& volume_id, const std::string& gone, RawData raw_data);
  absl::Status CloseMapping(const KnownDevice& mapping, const std::vector<ListedMount>& mounts, RawData raw_data);
  absl::Status LetGo(const KnownDevice& device);
  absl::Status DeleteStaleAdopted(const std::vector<VolumeUse>& uses, const std::vector<ListedMount>& mounts);

  Mounter& mounter_;
  VolumeSource& source_;
  NodeStore& store_;
};

// Whether the kernel detaches the device by itself: that of a mounted image, or the one below a mapping.
bool GoesByItself(const LoopInfo& loop);

// The open mapping of an encrypted volume. No other volume has both a known device and a loop device that goes by
// itself. The label of that loop device tells the mappings of other nodes apart. `devices`: VolumeSource::KnownDevices.
// Null: none is open.
const KnownDevice* MappingOf(const std::string& volume_id, const std::vector<LoopInfo>& loops,
                             const std::vector<KnownDevice>& devices);

// DEADLINE_EXCEEDED: a device of the volume does not answer.
absl::Status CheckNoneHangs(const std::string& volume_id, const std::vector<LoopInfo>& loops);

// Logs a failed attempt (`held`) to hold the volume's devices open.
void WarnIfNotHeld(const std::string& volume_id, const absl::Status& held);

// Applies the mutable settings of a volume to its mounts and loop devices on this node.
//
// Mounts in other mount namespaces are copies, and keep their flags. It keeps no state. The caller holds the volume's
// lock.
class VolumeTuner {
 public:
  VolumeTuner(Mounts& mounts, NodeStore& store, VolumeFinder& finder, VolumeDevices& devices)
      : mounts_(mounts), store_(store), finder_(finder), devices_(devices) {}

  absl::Status Tune(const NodeVolume& volume);

  // Changes one mount. Its requested flags hold for settings that the volume does not have.
  absl::Status TuneMount(const NodeVolume& volume, const VolumeUse& use);

 private:
  Mounts& mounts_;
  NodeStore& store_;
  VolumeFinder& finder_;
  VolumeDevices& devices_;
};

}  // namespace mooring
