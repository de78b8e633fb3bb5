#include "plugin/node/stage/stager.h"

#include <fmt/format.h>

#include <optional>

#include "base/status.h"
#include "base/text/quote.h"
#include "plugin/model/volume_mount.h"
#include "plugin/node/uses/volume_kind.h"

namespace mooring {
namespace {

absl::Status StagedOtherwise(const StageSpec& spec, const std::string& how) {
  return AlreadyExists(fmt::format("volume {} is staged at {} with another capability ({}); asked for: {}",
                                   spec.volume_id, Quote(spec.staging_path), WithoutMountFlags(how),
                                   WithoutMountFlags(ToString(spec.capability))));
}

absl::Status StagedFilesystemFailed(const StageSpec& spec, const PathInfo& place) {
  return FailedPrecondition(
      fmt::format("the filesystem mounted at {} does not answer any more ({}): unpublish and "
                  "unstage the volume",
                  Quote(spec.staging_path), place.failure));
}

}  // namespace

absl::Status Stager::Stage(const StageSpec& spec, const NodeVolume& volume) {
  MOORING_ASSIGN_OR_RETURN(const PathInfo place, mounts_.Find(spec.staging_path));
  MOORING_RETURN_IF_ERROR(CheckStagingDirectory(spec.staging_path, place));
  MOORING_RETURN_IF_ERROR(CheckSuits(volume, spec.capability));
  if (place.mount) return CheckStagedAlike(spec, volume, place);
  MOORING_RETURN_IF_ERROR(CheckBlockStagedThere(spec));
  if (spec.capability.access_type == AccessType::kMount) return StageMount(spec, volume, place);
  return StagingOf(volume) == Staging::kBlockDevice ? block_devices_.StageBlock(spec, volume)
                                                    : loops_.StageBlock(spec, volume);
}

// With StagingBy::kPlugin the mount creates the directory. A block volume is not mounted at its staging path.
absl::Status Stager::CheckStagingDirectory(const std::string& path, const PathInfo& place) const {
  if (place.kind == PathInfo::Kind::kDirectory) return absl::OkStatus();
  if (place.kind != PathInfo::Kind::kMissing) {
    return FailedPrecondition(fmt::format("staging path {} is not a directory", Quote(path)));
  }
  if (staging_by_ == StagingBy::kPlugin) return absl::OkStatus();
  return FailedPrecondition(
      fmt::format("staging path {} is not there: the orchestrator makes this directory", Quote(path)));
}

absl::Status Stager::StageMount(const StageSpec& spec, const NodeVolume& volume, const PathInfo& place) {
  if (!place.empty) {
    return FailedPrecondition(fmt::format("{} {} is not empty: a mount would hide what is in it",
                                          spec.as_target ? "target path" : "staging path", Quote(spec.staging_path)));
  }
  switch (StagingOf(volume)) {
    case Staging::kLoopDevice:
      return loops_.StageFilesystem(spec, volume);
    case Staging::kBlockDevice:
      return block_devices_.StageFilesystem(spec, volume);
    case Staging::kDirectory:
      return plain_.StageDirectory(spec, volume);
    case Staging::kMemory:
      return plain_.StageMemory(spec, volume);
  }
  return Internal("unknown way to stage a volume");
}

// A block volume is not mounted at its staging path, so only the record can tell.
absl::Status Stager::CheckBlockStagedThere(const StageSpec& spec) {
  MOORING_ASSIGN_OR_RETURN(const std::optional<VolumeUse> known, store_.Get(spec.staging_path));
  if (!known || known->adopted()) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(const bool live, finder_.IsLive(*known));
  if (!live) return absl::OkStatus();
  if (known->volume_id != spec.volume_id) {
    return FailedPrecondition(
        fmt::format("staging path {} is in use for volume {}", Quote(spec.staging_path), known->volume_id));
  }
  return known->capability == ToString(spec.capability) ? absl::OkStatus() : StagedOtherwise(spec, known->capability);
}

// Accepts the mount at the staging path if it is the requested one.
absl::Status Stager::CheckStagedAlike(const StageSpec& spec, const NodeVolume& volume, const PathInfo& place) {
  if (!IsMountOf(volume, place)) {
    const std::string owner = finder_.Owner(place);
    return FailedPrecondition(
        fmt::format("staging path {} is a mount of {} already", Quote(spec.staging_path),
                    owner.empty() ? place.mount->fs_type + ", not of this driver" : "volume " + owner));
  }
  if (!place.failure.empty()) return StagedFilesystemFailed(spec, place);
  MOORING_ASSIGN_OR_RETURN(const std::optional<VolumeUse> known, store_.Get(spec.staging_path));
  VolumeUse wanted = StagedUse(spec);
  wanted.done = true;
  const bool other_type = spec.capability.access_type == AccessType::kBlock ||
                          (!spec.capability.fs_type.empty() && spec.capability.fs_type != place.mount->fs_type);
  MountFlags flags = place.mount->flags;
  if (known && IsAskedAgain(known->capability, wanted.capability)) {
    MOORING_RETURN_IF_ERROR(tuner_.TuneMount(volume, *known));  // a change of its settings may have been interrupted
    flags.atime = StagedFlags(spec, volume).atime;
  }
  if (other_type || flags != StagedFlags(spec, volume)) {
    return StagedOtherwise(spec, "mount " + place.mount->fs_type + (place.mount->flags.read_only ? ", read-only" : ""));
  }
  if (known && !known->adopted() && !IsAskedAgain(known->capability, wanted.capability))
    return StagedOtherwise(spec, known->capability);
  if (known == wanted) return absl::OkStatus();
  // An earlier call was interrupted between the mount and FilesystemStager::Finish.
  MOORING_RETURN_IF_ERROR(filesystems_.Finish(spec, volume, place.mount->fs_type, false));
  store_.PutDone(wanted);
  return absl::OkStatus();
}

}  // namespace mooring
