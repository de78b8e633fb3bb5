// Stages a volume: checks the staging path and what is mounted there, and stages the kind of volume that it is.
//
//   Staging::kLoopDevice    Stager ──▶ LoopStager ──▶ FilesystemStager
//   Staging::kBlockDevice   Stager ──▶ FilesystemStager: the device node is mounted. Raw stagings are only records
//   Staging::kDirectory     Stager makes a bind mount
//   Staging::kMemory        Stager mounts a tmpfs. Later stagings and targets bind it, so all show the same files. It
//                           ends with its last mount
//
// It owns these stagers and keeps no other state. NodeVolumes and Publisher call it, and hold the locks of the volume
// and of the path. FAILED_PRECONDITION: the staging path is not usable, or the volume is in use in another way.
// ALREADY_EXISTS: the volume is staged there with another capability.
#pragma once

#include <optional>
#include <string>

#include "plugin/node/stage/loop_stager.h"
#include "plugin/node/uses/volume_tuner.h"

namespace mooring {

class Stager {
 public:
  Stager(Mounter& mounter, NodeStore& store, VolumeFinder& finder, VolumeDevices& devices, VolumeTuner& tuner,
         StagingBy staging_by)
      : mounts_(mounter),
        store_(store),
        finder_(finder),
        tuner_(tuner),
        staging_by_(staging_by),
        filesystems_(mounter, store, finder, devices, staging_by),
        loops_(mounter, store, finder, devices, filesystems_) {}

  absl::Status Stage(const StageSpec& spec, const NodeVolume& volume);

  // Mounts the volume at a path where nothing is mounted. `place`: that path now.
  absl::Status StageMount(const StageSpec& spec, const NodeVolume& volume, const PathInfo& place);

 private:
  absl::Status CheckStagingDirectory(const std::string& path, const PathInfo& place) const;
  absl::Status CheckStagedAlike(const StageSpec& spec, const NodeVolume& volume, const PathInfo& place);
  absl::Status CheckBlockStagedThere(const StageSpec& spec);
  absl::Status CheckNoRawUse(const std::string& volume_id);
  absl::Status StageDevice(const StageSpec& spec, const NodeVolume& volume);
  absl::Status StageRawDevice(const StageSpec& spec, const NodeVolume& volume);
  absl::Status StageBind(const std::string& source, const StageSpec& spec, const NodeVolume& volume);
  absl::Status StageMemory(const StageSpec& spec, const NodeVolume& volume);
  absl::StatusOr<std::optional<std::string>> FindMemory(const std::string& volume_id);

  Mounts& mounts_;
  NodeStore& store_;
  VolumeFinder& finder_;
  VolumeTuner& tuner_;
  const StagingBy staging_by_;
  FilesystemStager filesystems_;
  LoopStager loops_;
};

}  // namespace mooring
