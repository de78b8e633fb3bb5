#include "plugin/node/node_volumes.h"

#include <chrono>

#include "base/log.h"
#include "base/status.h"
#include "plugin/model/fs_types.h"
#include "plugin/model/volume_id.h"
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
      store_(store),
      finder_(mounter, source, store),
      devices_(mounter, source, store),
      encryption_(mounter, source, store, devices_),
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
  const auto stage = [&](const NodeVolume& open) { return stager_.Stage(spec, open); };
  return WithUse(spec.volume_id, spec.capability, spec.read_only,
                 [&] { return encryption_.WhileOpen(volume, spec.passphrase, stage); });
}

absl::Status NodeVolumes::WithUse(const std::string& volume_id, const Capability& capability, bool read_only,
                                  const std::function<absl::Status()>& mount) {
  const absl::Status begun = source_.BeginUse(volume_id, capability, read_only);
  // The record may be there although its server did not say so.
  if (!begun.ok() && !absl::IsFailedPrecondition(begun)) source_.EndUseLater(volume_id);
  MOORING_RETURN_IF_ERROR(begun);
  absl::Status mounted = mount();
  if (!mounted.ok()) EndUse(volume_id, absl::OkStatus());
  return mounted;
}

void NodeVolumes::EndUse(const std::string& volume_id, const absl::Status& locked) {
  const absl::Status ended = locked.ok() ? source_.EndUse(volume_id) : locked;
  if (ended.ok()) return;
  log::Warning("other hosts still see a volume in use on this one", {{"volume", volume_id}, {"cause", Message(ended)}});
  source_.EndUseLater(volume_id);
}

// The mounts are gone, which does not depend on the volume's pool.
absl::StatusOr<std::string> NodeVolumes::EndedUse(const std::string& asked, absl::StatusOr<std::string> owner) {
  if (!owner.ok()) return owner;
  const std::string& id = owner->empty() ? asked : *owner;
  if (TagOfId(id).empty()) return owner;
  const auto uses = store_.OfVolume(id);
  if (!uses.ok() || !uses->empty()) return owner;
  const auto hold = locks_.AcquireVolume(id, {std::chrono::steady_clock::now()}, NodeLocks::Among::kThisHost);
  EndUse(id, hold.status());
  return owner;
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
  const auto publish = [&](const NodeVolume& open) { return publisher_.PublishAlone(spec, open); };
  return WithUse(spec.volume_id, spec.capability, spec.read_only,
                 [&] { return encryption_.WhileOpen(volume, spec.passphrase, publish); });
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
  MOORING_RETURN_IF_ERROR(AsExpandMaySay(devices_.Resize(volume)));
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
