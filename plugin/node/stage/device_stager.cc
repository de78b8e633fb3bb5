#include "plugin/node/stage/device_stager.h"

#include <fmt/format.h>

#include <optional>
#include <string>

#include "base/file/path.h"
#include "base/status.h"
#include "mounter/loop/loop_mounted.h"

namespace mooring {

// The records know the raw uses of the device, and so does the read-only loop device of a target.
absl::Status DeviceStager::CheckNoRawUse(const std::string& volume_id) {
  const auto is_raw = [](const VolumeUse& use) { return use.access_type == AccessType::kBlock; };
  MOORING_ASSIGN_OR_RETURN(const std::optional<VolumeUse> raw, finder_.FindLive(volume_id, is_raw));
  if (!raw) return absl::OkStatus();
  return FailedPrecondition(fmt::format("volume {} is in use as a block device ({}): unpublish and unstage that first",
                                        volume_id, raw->path));
}

absl::Status DeviceStager::StageFilesystem(const StageSpec& spec, const NodeVolume& volume) {
  MOORING_RETURN_IF_ERROR(filesystems_.CheckSameOptions(spec));
  MOORING_RETURN_IF_ERROR(CheckNoRawUse(spec.volume_id));
  MOORING_ASSIGN_OR_RETURN(const bool in_use, IsMountedAnywhere(std::string(NameOf(volume.path))));
  return filesystems_.Stage(spec, volume, in_use);
}

absl::Status DeviceStager::StageBlock(const StageSpec& spec, const NodeVolume& volume) {
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
