// Stages volumes with Staging::kBlockDevice: the device node is mounted, or bound, itself. Raw stagings exist only as
// records.
//
// It keeps no state. The caller holds the locks of the volume and of the path. FAILED_PRECONDITION: the device is in
// use in the other way.
#ifndef MOORING_PLUGIN_NODE_STAGE_DEVICE_STAGER_H_
#define MOORING_PLUGIN_NODE_STAGE_DEVICE_STAGER_H_

#include "plugin/node/stage/filesystem_stager.h"

namespace mooring {

class DeviceStager {
 public:
  DeviceStager(NodeStore& store, VolumeFinder& finder, FilesystemStager& filesystems)
      : store_(store), finder_(finder), filesystems_(filesystems) {}

  absl::Status StageFilesystem(const StageSpec& spec, const NodeVolume& volume);
  absl::Status StageBlock(const StageSpec& spec, const NodeVolume& volume);

 private:
  absl::Status CheckNoRawUse(const std::string& volume_id);

  NodeStore& store_;
  VolumeFinder& finder_;
  FilesystemStager& filesystems_;
};

}  // namespace mooring

#endif  // MOORING_PLUGIN_NODE_STAGE_DEVICE_STAGER_H_
