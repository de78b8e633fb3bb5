// Stages the filesystem on an image or a block device: formats, checks and grows it, and mounts it. LoopStager and
// Stager use it.
//
// A filesystem without damage is usable at its old size. So a failed growth appears in the log and in the condition of
// the volume, and fails no call.
//
// It keeps no state. The caller holds the locks of the volume and of the path. FAILED_PRECONDITION: the volume holds
// something else than is asked for; it is never formatted again.
#pragma once

#include <string>

#include "plugin/model/backend_traits.h"
#include "plugin/node/stage/stage_spec.h"
#include "plugin/node/uses/volume_devices.h"
#include "plugin/node/uses/volume_finder.h"

namespace mooring {

class FilesystemStager {
 public:
  FilesystemStager(Mounter& mounter, NodeStore& store, VolumeFinder& finder, VolumeDevices& devices,
                   StagingBy staging_by)
      : mounter_(mounter), store_(store), finder_(finder), devices_(devices), staging_by_(staging_by) {}

  // All mounts of a volume share one superblock with one set of options. FAILED_PRECONDITION: another mount has others.
  absl::Status CheckSameOptions(const StageSpec& spec);

  // `in_use`: the filesystem is mounted elsewhere, so it is neither formatted nor checked nor grown.
  absl::Status Stage(const StageSpec& spec, const NodeVolume& volume, bool in_use);

  // The steps after the mount: grows an xfs or btrfs, and tunes the devices. A filesystem in use has been through them.
  absl::Status Finish(const StageSpec& spec, const NodeVolume& volume, const std::string& fs_type, bool in_use);

 private:
  absl::StatusOr<std::string> Prepare(const StageSpec& spec, const NodeVolume& volume, bool in_use);
  absl::StatusOr<std::string> Format(const NodeVolume& volume, const std::string& asked_type);
  absl::Status CheckAndGrow(const NodeVolume& volume, FilesystemInfo found);
  absl::Status Mount(const StageSpec& spec, const NodeVolume& volume, const std::string& fs_type, bool in_use);
  absl::Status GrowUnmounted(const NodeVolume& volume, const std::string& fs_type);
  absl::Status GrowMounted(const NodeVolume& volume, const std::string& path, const std::string& fs_type);

  Mounter& mounter_;
  NodeStore& store_;
  VolumeFinder& finder_;
  VolumeDevices& devices_;
  const StagingBy staging_by_;
};

}  // namespace mooring
