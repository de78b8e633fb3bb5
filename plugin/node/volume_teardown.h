// Ends stagings and publications: unmounts the path, releases the devices, and deletes the record last. So a call that
// fails is finished by the next call.
//
// It keeps no state and takes the locks by itself, because the end of a target may unstage other paths (StagingBy).
// NodeVolumes and NodeReconciler call it. Errors: VolumeFinder::CheckMayEnd, VolumeUnmounter, VolumeDevices;
// FAILED_PRECONDITION: the path is a symbolic link. ABORTED: other calls use the path again and again.
#pragma once

#include <optional>
#include <string>

#include "plugin/model/backend_traits.h"
#include "plugin/node/node_locks.h"
#include "plugin/node/uses/volume_devices.h"
#include "plugin/node/uses/volume_finder.h"

namespace mooring {

// Unmounts a volume at a path, with the mounts that tasks left on it and below it.
//
// It never unmounts lazily: a busy mount is an error. Mounts that were unmounted before an error stay unmounted, and
// the next call continues. It keeps no state. The caller holds the locks of the volume and of the path.
// FAILED_PRECONDITION: something else is mounted at the path or below it, and is left alone; or a mount is busy.
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

class VolumeTeardown {
 public:
  VolumeTeardown(Mounter& mounter, NodeStore& store, VolumeFinder& finder, VolumeDevices& devices, NodeLocks& locks,
                 StagingBy staging_by)
      : mounter_(mounter),
        store_(store),
        finder_(finder),
        devices_(devices),
        locks_(locks),
        unmounter_(mounter, store, finder),
        plugin_stages_(staging_by == StagingBy::kPlugin) {}

  // Both return the id of the volume which was at the path. It differs from `volume_id` if the latter is unknown.
  // Empty: no volume of this plugin was there.
  absl::StatusOr<std::string> Unstage(const std::string& volume_id, const std::string& staging_path, const Call& call);
  absl::StatusOr<std::string> Unpublish(const std::string& volume_id, const std::string& target_path, const Call& call);

  // For orchestrators that do not unstage: a volume that stays staged could never be deleted. A caller between Stage
  // and Publish finds the volume not staged, and starts again.
  absl::Status UnstageUnused(const std::string& volume_id, const Call& call);

 private:
  // A path whose use is to end, locked together with the volume that uses it.
  struct Ending {
    NodeLocks::Hold hold;
    PathInfo place;
    std::optional<VolumeUse> known;
    std::string owner;  // empty: no volume of this plugin
  };
  absl::StatusOr<bool> UnpublishByRecord(const std::string& volume_id, const std::string& target_path,
                                         const Call& call);
  absl::StatusOr<Ending> AcquireToEnd(const std::string& volume_id, const std::string& path, const Call& call);
  absl::Status EndStaging(const std::string& volume_id, const std::string& staging_path, const Ending& ending);
  absl::Status EndTarget(const std::string& volume_id, const std::string& target_path, const Ending& ending);
  absl::Status UnstageIfUnused(const std::string& volume_id, const std::string& staging_path, const Call& call);

  Mounter& mounter_;
  NodeStore& store_;
  VolumeFinder& finder_;
  VolumeDevices& devices_;
  NodeLocks& locks_;
  VolumeUnmounter unmounter_;
  const bool plugin_stages_;
};

}  // namespace mooring
