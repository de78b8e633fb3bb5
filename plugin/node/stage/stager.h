// Stages a volume: checks the staging path and what is mounted there, and hands the rest to the stager for the kind of
// volume.
//
//   Stager ──┬──▶ LoopStager   ──┬──▶ FilesystemStager
//            ├──▶ DeviceStager ──┘
//            └──▶ PlainStager         directories and memory
//
// It owns these stagers and keeps no other state. NodeVolumes and Publisher call it, and hold the locks of the volume
// and of the path. FAILED_PRECONDITION: the staging path is not usable. ALREADY_EXISTS: the volume is staged there with
// another capability.
#ifndef MOORING_PLUGIN_NODE_STAGE_STAGER_H_
#define MOORING_PLUGIN_NODE_STAGE_STAGER_H_

#include <string>

#include "plugin/node/stage/device_stager.h"
#include "plugin/node/stage/loop_stager.h"
#include "plugin/node/stage/plain_stager.h"
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
        loops_(mounter, store, finder, devices, filesystems_),
        block_devices_(store, finder, filesystems_),
        plain_(mounter, store, finder) {}

  absl::Status Stage(const StageSpec& spec, const NodeVolume& volume);

  // Mounts the volume at a path where nothing is mounted. `place`: that path now.
  absl::Status StageMount(const StageSpec& spec, const NodeVolume& volume, const PathInfo& place);

 private:
  absl::Status CheckStagingDirectory(const std::string& path, const PathInfo& place) const;
  absl::Status CheckStagedAlike(const StageSpec& spec, const NodeVolume& volume, const PathInfo& place);
  absl::Status CheckBlockStagedThere(const StageSpec& spec);

  Mounts& mounts_;
  NodeStore& store_;
  VolumeFinder& finder_;
  VolumeTuner& tuner_;
  const StagingBy staging_by_;
  FilesystemStager filesystems_;
  LoopStager loops_;
  DeviceStager block_devices_;
  PlainStager plain_;
};

}  // namespace mooring

#endif  // MOORING_PLUGIN_NODE_STAGE_STAGER_H_
