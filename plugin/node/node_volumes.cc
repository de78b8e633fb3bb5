#include "plugin/node/node_volumes.h"

#include "base/status.h"
#include "plugin/model/fs_types.h"
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
  if (spec.range.required > volume.bytes) {
    return OutOfRange("volume {} has {} bytes, {} are required: ControllerExpandVolume comes first", spec.volume_id,
                      volume.bytes, spec.range.required);
  }
  if (spec.range.limit != 0 && spec.range.limit < volume.bytes) {
    return OutOfRange("volume {} has {} bytes already, more than the limit of {}", spec.volume_id, volume.bytes,
                      spec.range.limit);
  }
  return absl::OkStatus();
}

}  // namespace

NodeVolumes::NodeVolumes(Mounter& mounter, VolumeSource& source, NodeStore& store, KeyedLocks& volume_locks,
                         Propagation propagation, StagingBy staging_by)
    : mounter_(mounter),
      source_(source),
      finder_(mounter, source, store),
      devices_(mounter, source, store),
      tuner_(mounter, store, finder_, devices_),
      locks_(volume_locks),
      stager_(mounter, store, finder_, devices_, tuner_, staging_by),
      publisher_(mounter, source, store, finder_, devices_, stager_, propagation),
      health_(mounter, source, store, finder_),
      teardown_(mounter, store, finder_, devices_, locks_, staging_by),
      reconciler_(mounter, source, store, finder_, devices_, locks_, teardown_, staging_by) {}

absl::Status NodeVolumes::Stage(const StageSpec& spec, const Call& call) {
  MOORING_ASSIGN_OR_RETURN(const NodeLocks::Hold hold, locks_.Acquire(spec.volume_id, spec.staging_path, call));
  source_.WaitFor(spec.volume_id, call.wait_until);
  MOORING_ASSIGN_OR_RETURN(const NodeVolume volume, source_.Find(spec.volume_id));
  MOORING_RETURN_IF_ERROR(source_.CheckMayStage(spec.volume_id));
  return stager_.Stage(spec, volume);
}

absl::Status NodeVolumes::Publish(const PublishSpec& spec, const Call& call) {
  if (spec.staging_path.empty()) {
    return FailedPrecondition("staging_target_path is missing: this driver stages volumes before it publishes them");
  }
  MOORING_ASSIGN_OR_RETURN(const NodeLocks::Hold hold, locks_.Acquire(spec.volume_id, spec.target_path, call));
  MOORING_ASSIGN_OR_RETURN(const NodeVolume volume, source_.Find(spec.volume_id));
  return publisher_.Publish(spec, volume);
}

absl::Status NodeVolumes::PublishAlone(const PublishSpec& spec, const Call& call) {
  MOORING_ASSIGN_OR_RETURN(const NodeLocks::Hold hold, locks_.Acquire(spec.volume_id, spec.target_path, call));
  MOORING_ASSIGN_OR_RETURN(const NodeVolume volume, source_.Find(spec.volume_id));
  return publisher_.PublishAlone(spec, volume);
}

absl::StatusOr<std::uint64_t> NodeVolumes::Expand(const ExpandSpec& spec, const Call& call) {
  MOORING_ASSIGN_OR_RETURN(const NodeLocks::Hold hold, locks_.Acquire(spec.volume_id, spec.volume_path, call));
  MOORING_ASSIGN_OR_RETURN(const NodeVolume volume, source_.Find(spec.volume_id));
  MOORING_ASSIGN_OR_RETURN(const VolumeFinder::Place place, finder_.FindVolumeAt(spec.volume_id, spec.volume_path));
  MOORING_RETURN_IF_ERROR(CheckSizeIsAskedFor(spec, volume));
  MOORING_RETURN_IF_ERROR(Grow(volume, place, spec.volume_path));
  return volume.bytes;
}

absl::Status NodeVolumes::Grow(const NodeVolume& volume, const VolumeFinder::Place& place, const std::string& path) {
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
  MOORING_RETURN_IF_ERROR(devices_.Resize(volume.id));
  if (place.info.kind != PathInfo::Kind::kDirectory) return absl::OkStatus();
  if (!IsMadeHere(place.info.mount->fs_type)) {
    return FailedPrecondition("volume {} has a {}, which is never grown here: grow it with its own tools", volume.id,
                              place.info.mount->fs_type);
  }
  return AsExpandMaySay(mounter_.Grow(path, place.info.mount->fs_type));
}

absl::Status NodeVolumes::CheckIsAt(const std::string& volume_id, const std::string& path) {
  MOORING_RETURN_IF_ERROR(source_.Find(volume_id).status());
  return finder_.FindVolumeAt(volume_id, path).status();
}

}  // namespace mooring
