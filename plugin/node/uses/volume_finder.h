// Finds the volume at a path, and the paths of a volume. The kernel decides, and the records name the paths to ask for.
//
// It keeps no state and takes no locks. All calls of the node use it. Errors are those of the mounter and the records.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "plugin/model/volume_source.h"
#include "plugin/node/uses/node_store.h"

namespace mooring {

// Whether a block target is a device node that belongs to `owner` or to no volume. Another program has then detached
// the loop device of its volume.
bool IsStrayNode(const VolumeUse& use, const PathInfo& place, const std::string& owner);

class VolumeFinder {
 public:
  VolumeFinder(Mounts& mounts, VolumeSource& source, NodeStore& store)
      : mounts_(mounts), source_(source), store_(store) {}

  // OwnerOf(info), or the volume of the block device that is mounted or bound there. Empty: no volume of this plugin.
  std::string Owner(const PathInfo& info);
  std::string OwnerText(const PathInfo& mounted);  // "volume vol-…", "ext4, not of this driver"

  // OK: a call for `volume_id` may end the use of `path` by `owner`. A call for an unknown volume may: its id may be
  // lost, and its path must be cleaned up.
  // FAILED_PRECONDITION: `volume_id` is another known volume. NOT_FOUND: this driver makes no such ids.
  absl::Status CheckMayEnd(const std::string& volume_id, const std::string& path, const std::string& owner);

  struct Place {
    std::string path;  // for statistics: the path itself, or the device that is staged there
    PathInfo info;
  };
  absl::StatusOr<Place> FindVolumeAt(const std::string& volume_id, const std::string& path);  // NOT_FOUND: not there

  // Whether the kernel still has the use: the mount at its path, or the device of a staged block volume.
  absl::StatusOr<bool> IsLive(const VolumeUse& use);

  // Whether the topmost mount at this path has mapped ids (VolumeTuning::idmap). It reads the mount table.
  absl::StatusOr<bool> HasMappedIds(const std::string& path);

  // A sentence if the device at a block target is not the volume's any more, else empty.
  absl::StatusOr<std::string> BlockTargetProblem(const VolumeUse& use);

  // The first live use of the volume that is on record and that `counts`.
  using Filter = std::function<bool(const VolumeUse&)>;
  absl::StatusOr<std::optional<VolumeUse>> FindLive(const std::string& volume_id, const Filter& counts);
  absl::StatusOr<bool> HasStagedDevice(const std::string& volume_id);  // as a block volume
  absl::StatusOr<std::vector<std::string>> LivePaths(const std::string& volume_id);

  // The commands that unpublish and unstage the volume at all its paths on this host, in this order. They are for
  // errors that say that a volume is in use, because the orchestrator may have forgotten it. Empty: there is no such
  // path.
  std::string CommandsToFree(const std::string& volume_id);

 private:
  Mounts& mounts_;
  VolumeSource& source_;
  NodeStore& store_;
};

}  // namespace mooring
