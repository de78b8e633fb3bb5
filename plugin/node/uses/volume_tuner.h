// Applies the mutable settings of a volume to its mounts and loop devices on this node.
//
// Mounts in other mount namespaces are copies, and keep their flags. It keeps no state. The caller holds the volume's
// lock.
#pragma once

#include "plugin/node/uses/volume_devices.h"
#include "plugin/node/uses/volume_finder.h"

namespace mooring {

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
