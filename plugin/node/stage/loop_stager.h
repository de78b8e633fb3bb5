// Stages volumes with Staging::kLoopDevice: images.
//
// Mounted: the kernel creates the loop device with the first mount and removes it with the last mount
// (LO_FLAGS_AUTOCLEAR), in any order. Raw: the first staging attaches the device, and the end of the last staging path
// and target detaches it (VolumeDevices).
//
// It keeps no state. The caller holds the locks of the volume and of the path. FAILED_PRECONDITION: the image is in use
// in the other way, or by another program.
#pragma once

#include "plugin/node/stage/filesystem_stager.h"

namespace mooring {

class LoopStager {
 public:
  LoopStager(Mounter& mounter, NodeStore& store, VolumeFinder& finder, VolumeDevices& devices,
             FilesystemStager& filesystems)
      : mounter_(mounter), store_(store), finder_(finder), devices_(devices), filesystems_(filesystems) {}

  absl::Status StageFilesystem(const StageSpec& spec, const NodeVolume& volume);
  absl::Status StageBlock(const StageSpec& spec, const NodeVolume& volume);

 private:
  absl::StatusOr<bool> ReleaseUnlessMounted(const StageSpec& spec, const NodeVolume& volume);
  absl::Status AttachOnRecord(const StageSpec& spec, const NodeVolume& volume);

  Mounter& mounter_;
  NodeStore& store_;
  VolumeFinder& finder_;
  VolumeDevices& devices_;
  FilesystemStager& filesystems_;
};

}  // namespace mooring
