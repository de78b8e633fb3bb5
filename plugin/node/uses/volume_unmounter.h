// Unmounts a volume at a path, with the mounts that tasks left on it and below it.
//
// It never unmounts lazily: a busy mount is an error. Mounts that were unmounted before an error stay unmounted, and
// the next call continues. It keeps no state. The caller holds the locks of the volume and of the path.
// FAILED_PRECONDITION: something else is mounted at the path or below it, and is left alone; or a mount is busy.
#pragma once

#include <string>

#include "plugin/node/uses/volume_finder.h"

namespace mooring {

class VolumeUnmounter {
 public:
  VolumeUnmounter(Mounts& mounts, NodeStore& store, VolumeFinder& finder)
      : mounts_(mounts), store_(store), finder_(finder) {}

  // Unmounts until nothing is mounted at the path, because other drivers stacked mounts there. `info`: the path now.
  // Every mount of the stack must belong to the volume. `remove_target`: removes the path, too.
  absl::Status Unmount(const std::string& volume_id, const std::string& path, PathInfo info, bool remove_target);

 private:
  absl::Status CheckMount(const std::string& volume_id, const std::string& path, const PathInfo& info);
  absl::Status CheckNoVolumeBelow(const std::string& volume_id, const std::string& path, const MountInfo& info);
  absl::Status UnmountBelow(const std::string& volume_id, const std::string& path, const absl::Status& refused);

  Mounts& mounts_;
  NodeStore& store_;
  VolumeFinder& finder_;
};

}  // namespace mooring
