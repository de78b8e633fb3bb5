#include "plugin/node/volume_expander.h"

#include <fmt/format.h>

#include "base/status.h"
#include "plugin/node/uses/volume_kind.h"

namespace mooring {
namespace {

// RESOURCE_EXHAUSTED would leave open whether the volume was expanded.
absl::Status AsExpandMaySay(const absl::Status& grown) {
  switch (grown.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kUnimplemented:
      return WithCode(absl::StatusCode::kFailedPrecondition, grown);
    case absl::StatusCode::kDataLoss:
      return WithCode(absl::StatusCode::kInternal, grown);
    default:
      return grown;
  }
}

absl::Status CheckSizeIsAskedFor(const ExpandSpec& spec, const NodeVolume& volume) {
  if (spec.required_bytes > volume.bytes) {
    return OutOfRange(fmt::format("volume {} has {} bytes, {} are required: ControllerExpandVolume comes first",
                                  spec.volume_id, volume.bytes, spec.required_bytes));
  }
  if (spec.limit_bytes != 0 && spec.limit_bytes < volume.bytes) {
    return OutOfRange(fmt::format("volume {} has {} bytes already, more than the limit of {}", spec.volume_id,
                                  volume.bytes, spec.limit_bytes));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status VolumeExpander::Expand(const ExpandSpec& spec, const NodeVolume& volume) {
  MOORING_ASSIGN_OR_RETURN(const VolumeFinder::Place place, finder_.FindVolumeAt(spec.volume_id, spec.volume_path));
  MOORING_RETURN_IF_ERROR(CheckSizeIsAskedFor(spec, volume));
  const bool is_filesystem = place.info.kind == PathInfo::Kind::kDirectory;
  switch (StagingOf(volume)) {
    case Staging::kDirectory:
      return absl::OkStatus();  // a directory enforces no size
    case Staging::kMemory:
      // All mounts of a tmpfs show the same filesystem, so any of them can grow it.
      return mounter_.Change({.target = place.path, .options = MemoryOptions(volume.bytes)});
    case Staging::kLoopDevice:
    case Staging::kBlockDevice:
      break;
  }
  MOORING_RETURN_IF_ERROR(devices_.Resize(spec.volume_id));
  if (!is_filesystem) return absl::OkStatus();
  return AsExpandMaySay(mounter_.Grow(spec.volume_path, place.info.mount->fs_type));
}

}  // namespace mooring
