// Stages volumes with Staging::kBlockDevice: the device node is mounted, or bound, itself.
#include <fmt/format.h>

#include "base/file/path.h"
#include "base/status.h"
#include "mounter/loop/loop_mounted.h"
#include "plugin/node/node_volumes.h"

namespace mooring {

// The records know the raw uses of the device, and so does the read-only loop device of a target.
absl::Status NodeVolumes::CheckNoRawUse(const StageSpec& spec) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<VolumeUse> uses, store_.OfVolume(spec.volume_id));
  for (const VolumeUse& use : uses) {
    if (use.access_type != AccessType::kBlock) continue;
    MOORING_ASSIGN_OR_RETURN(const bool live, IsLive(use));
    if (!live) continue;
    return FailedPrecondition(fmt::format(
        "volume {} is in use as a block device ({}): unpublish and unstage that first", spec.volume_id, use.path));
  }
  return absl::OkStatus();
}

absl::Status NodeVolumes::StageDevice(const StageSpec& spec, const NodeVolume& volume) {
  MOORING_RETURN_IF_ERROR(CheckSameOptions(spec));
  MOORING_RETURN_IF_ERROR(CheckNoRawUse(spec));
  MOORING_ASSIGN_OR_RETURN(const bool in_use, IsMountedAnywhere(std::string(NameOf(volume.path))));
  if (!in_use) MOORING_RETURN_IF_ERROR(CheckWhole(volume));
  return PutStaged(spec, [&]() -> absl::Status {
    MOORING_ASSIGN_OR_RETURN(const std::string fs_type, PrepareFilesystem(spec, volume, in_use));
    return MountStaged(spec, volume, fs_type, in_use);
  });
}

absl::Status NodeVolumes::StageRawDevice(const StageSpec& spec, const NodeVolume& volume) {
  MOORING_ASSIGN_OR_RETURN(const bool mounted, IsMountedAnywhere(std::string(NameOf(volume.path))));
  if (mounted) {
    return FailedPrecondition(
        fmt::format("volume {} is in use as a filesystem ({}): raw access would destroy it; unpublish and unstage it "
                    "first",
                    volume.id, volume.path));
  }
  MOORING_RETURN_IF_ERROR(CheckWhole(volume));
  VolumeUse use = StagedUse(spec);
  use.device = volume.path;
  use.done = true;  // a raw device needs no mount
  return store_.Put(use);
}

}  // namespace mooring
