// Stages a volume: checks the staging path and what is mounted there, and stages the kind of volume that it is.
//
//   Staging::kLoopDevice    Stager ──▶ LoopStager ──▶ FilesystemStager
//   Staging::kBlockDevice   Stager ──▶ FilesystemStager: the device node is mounted. Raw stagings are only records.
//                           An encrypted volume is open, and its device is its mapping (uses/encryption.h)
//   Staging::kDirectory     Stager makes a bind mount
//   Staging::kMemory        Stager mounts a tmpfs. Later stagings and targets bind it, so all show the same files. It
//                           ends with its last mount
//
// It owns these stagers and keeps no other state. NodeVolumes and Publisher call it, and hold the locks of the volume
// and of the path. FAILED_PRECONDITION: the staging path is not usable, or the volume is in use in another way.
// ALREADY_EXISTS: the volume is staged there with another capability.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "plugin/node/stage/filesystem_stager.h"
#include "plugin/node/uses/volume_finder.h"

namespace mooring {

// Stages volumes with Staging::kLoopDevice: images.
//
// Mounted: the kernel creates the loop device with the first mount and removes it with the last mount
// (LO_FLAGS_AUTOCLEAR), in any order. Raw: the first staging attaches the device, and the end of the last staging path
// and target detaches it (VolumeDevices).
//
// It keeps no state. The caller holds the locks of the volume and of the path. FAILED_PRECONDITION: the image is in use
// in the other way, or by another program.
class LoopStager {
 public:
  LoopStager(Mounter& mounter, NodeStore& store, VolumeFinder& finder, VolumeDevices& devices,
             FilesystemStager& filesystems)
      : mounter_(mounter), store_(store), finder_(finder), devices_(devices), filesystems_(filesystems) {}

  absl::Status StageFilesystem(const StageSpec& spec, const NodeVolume& volume);
  absl::Status StageBlock(const StageSpec& spec, const NodeVolume& volume);

 private:
  absl::Status CheckNotReplaced(const NodeVolume& volume, const std::vector<LoopInfo>& loops);
  absl::StatusOr<bool> ReleaseUnlessMounted(const StageSpec& spec, const NodeVolume& volume);
  absl::Status AttachOnRecord(const StageSpec& spec, const NodeVolume& volume);

  Mounter& mounter_;
  NodeStore& store_;
  VolumeFinder& finder_;
  VolumeDevices& devices_;
  FilesystemStager& filesystems_;
};

class Stager {
 public:
  Stager(Mounter& mounter, NodeStore& store, VolumeFinder& finder, VolumeDevices& devices, VolumeTuner& tuner,
         StagingBy staging_by)
      : mounts_(mounter),
        disks_(mounter),
        store_(store),
        finder_(finder),
        tuner_(tuner),
        staging_by_(staging_by),
        filesystems_(mounter, store, finder, devices, staging_by),
        loops_(mounter, store, finder, devices, filesystems_) {}

  absl::Status Stage(const StageSpec& spec, const NodeVolume& volume);

  // Mounts the volume at a path where nothing is mounted. `place`: that path now. If that is refused and a mount is
  // there by now, `check` decides about it. The mount helper of a killed plugin may have finished it.
  absl::Status StageMount(const StageSpec& spec, const NodeVolume& volume, const PathInfo& place,
                          const std::function<absl::Status(const PathInfo& there)>& check);

 private:
  absl::Status MountAnew(const StageSpec& spec, const NodeVolume& volume, const PathInfo& place);
  absl::Status CheckStagingDirectory(const std::string& path, const PathInfo& place) const;
  absl::Status CheckStagedAlike(const StageSpec& spec, const NodeVolume& volume, const PathInfo& place);
  absl::Status CheckBlockStagedThere(const StageSpec& spec);
  absl::Status CheckIdsNotMapped(const StageSpec& spec, const NodeVolume& volume);
  absl::Status CheckNoRawUse(const std::string& volume_id);
  absl::Status StageDevice(const StageSpec& spec, const NodeVolume& volume);
  absl::Status StageRawDevice(const StageSpec& spec, const NodeVolume& volume);
  absl::Status StageBind(const std::string& source, const StageSpec& spec, const NodeVolume& volume);
  absl::Status StageMemory(const StageSpec& spec, const NodeVolume& volume);
  absl::Status StageMemoryAgain(const std::string& from, const StageSpec& spec, const NodeVolume& volume);
  absl::StatusOr<std::optional<std::string>> FindMemory(const std::string& volume_id);

  Mounts& mounts_;
  Filesystems& disks_;
  NodeStore& store_;
  VolumeFinder& finder_;
  VolumeTuner& tuner_;
  const StagingBy staging_by_;
  FilesystemStager filesystems_;
  LoopStager loops_;
};

}  // namespace mooring
