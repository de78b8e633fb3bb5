#include <fmt/format.h>

#include "base/status.h"
#include "base/text/quote.h"
#include "plugin/node/node_volumes.h"

namespace mooring {

namespace {

bool HasDevice(const NodeVolume& volume) {
  const Staging staging = StagingOf(volume);
  return staging == Staging::kLoopDevice || staging == Staging::kBlockDevice;
}

// CSI 1.12, NodeExpandVolume. RESOURCE_EXHAUSTED would leave open whether the volume was expanded.
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

}  // namespace

// All mounts of a tmpfs show the same filesystem, so any of them can grow it. A directory enforces no size.
absl::Status NodeVolumes::ExpandWithoutDevice(const NodeVolume& volume, const std::string& path) {
  if (StagingOf(volume) != Staging::kMemory) return absl::OkStatus();
  return mounter_.Change({.target = path, .options = MemoryOptions(volume.bytes)});
}

absl::Status NodeVolumes::CheckIsAt(const std::string& volume_id, const std::string& path) {
  MOORING_RETURN_IF_ERROR(source_.Find(volume_id).status());
  return FindVolumeAt(volume_id, path).status();
}

absl::StatusOr<std::uint64_t> NodeVolumes::Expand(const ExpandSpec& spec, const Call& call) {
  MOORING_ASSIGN_OR_RETURN(const Hold hold, Acquire(spec.volume_id, spec.volume_path, call));
  MOORING_ASSIGN_OR_RETURN(const NodeVolume volume, source_.Find(spec.volume_id));
  MOORING_ASSIGN_OR_RETURN(const Place place, FindVolumeAt(spec.volume_id, spec.volume_path));
  if (spec.required_bytes > volume.bytes) {
    return OutOfRange(fmt::format("volume {} has {} bytes, {} are required: ControllerExpandVolume comes first",
                                  spec.volume_id, volume.bytes, spec.required_bytes));
  }
  if (spec.limit_bytes != 0 && spec.limit_bytes < volume.bytes) {
    return OutOfRange(fmt::format("volume {} has {} bytes already, more than the limit of {}", spec.volume_id,
                                  volume.bytes, spec.limit_bytes));
  }
  if (place.info.kind == PathInfo::Kind::kDirectory && !HasDevice(volume)) {
    MOORING_RETURN_IF_ERROR(ExpandWithoutDevice(volume, place.path));
    return volume.bytes;
  }
  // The volume's own device grows before a device on top of it.
  MOORING_ASSIGN_OR_RETURN(const std::vector<LoopInfo> loops, mounter_.FindLoops(""));
  MOORING_RETURN_IF_ERROR(CheckNoneHangs(spec.volume_id, loops));  // a hanging device cannot be resized
  for (const std::string& label : {LabelFor(spec.volume_id), ReadOnlyLabelFor(spec.volume_id)}) {
    for (const LoopInfo& loop : loops) {
      if (loop.label == label) MOORING_RETURN_IF_ERROR(mounter_.ResizeLoop(loop));
    }
  }
  if (place.info.kind == PathInfo::Kind::kDirectory) {
    MOORING_RETURN_IF_ERROR(AsExpandMaySay(mounter_.Grow(spec.volume_path, place.info.mount->fs_type)));
  }
  return volume.bytes;
}

}  // namespace mooring
