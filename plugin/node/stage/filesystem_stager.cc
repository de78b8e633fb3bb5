#include "plugin/node/stage/filesystem_stager.h"

#include <fmt/format.h>

#include <cstdint>

#include "base/deadline.h"
#include "base/log.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "plugin/model/call.h"
#include "plugin/model/fs_types.h"
#include "plugin/model/volume_mount.h"
#include "plugin/model/volume_size.h"
#include "plugin/node/uses/volume_kind.h"

namespace mooring {
namespace {

void WarnNotGrown(const NodeVolume& volume, const absl::Status& failed) {
  log::Warning("the filesystem of a volume could not be grown: it stays smaller than the volume",
               {{"volume", volume.id}, {"cause", Message(failed)}});
}

}  // namespace

VolumeUse NewUse(VolumeUse::Role role, const std::string& volume_id, const std::string& path,
                 const Capability& capability) {
  return {.path = path,
          .volume_id = volume_id,
          .role = role,
          .access_type = capability.access_type,
          .mode = capability.mode};
}

VolumeUse StagedUse(const StageSpec& spec) {
  using Role = VolumeUse::Role;
  VolumeUse use =
      NewUse(spec.as_target ? Role::kTarget : Role::kStage, spec.volume_id, spec.staging_path, spec.capability);
  use.read_only = IsReadOnly(spec.capability, spec.read_only);
  use.capability = ToString(spec.capability);
  use.options = ToString(spec.capability.options.options);
  if (!spec.as_target) return use;
  use.asked_propagation = spec.as_target->asked;
  use.propagation = spec.as_target->propagation;
  return use;
}

MountFlags StagedFlags(const StageSpec& spec, const NodeVolume& volume) {
  MountFlags flags = Tuned(spec.capability.options.flags, volume.tuning);
  flags.read_only = IsReadOnly(spec.capability, spec.read_only);
  return FlagsOfNewMount(flags, spec.capability);
}

Propagation StagedPropagation(const StageSpec& spec) {
  return spec.as_target ? spec.as_target->propagation : Propagation::kPrivate;
}

std::string StagedIdMap(const StageSpec& spec, const NodeVolume& volume) {
  return spec.as_target ? volume.tuning.idmap : "";
}

absl::Status FilesystemStager::CheckSameOptions(const StageSpec& spec) {
  const std::string wanted = ToString(spec.capability.options.options);
  const auto differs = [&](const VolumeUse& use) {
    return use.path != spec.staging_path && use.access_type == AccessType::kMount && !use.adopted() &&
           use.options != wanted;
  };
  MOORING_ASSIGN_OR_RETURN(const std::optional<VolumeUse> other, finder_.FindLive(spec.volume_id, differs));
  if (!other) return absl::OkStatus();
  return FailedPrecondition(
      "volume {} is in use at {} with other filesystem options (mount_flags) than are asked for. All stagings of a "
      "volume share one filesystem: unstage it there first",
      spec.volume_id, Quote(other->path));
}

static absl::Status MayHideData(const NodeVolume& volume) {
  const std::string or_else =
      !IsSizedHere(volume)  // a whole device
          ? fmt::format(
                "delete the volume, clear the device (blkdiscard -z), remove the file devices/POOL/{}.released in "
                "the state directory, and create the volume again",
                volume.id)
          : "create another volume";
  return FailedPrecondition(
      "volume {} has a device that it, or an earlier volume, had for block access. The device may hold data that no "
      "signature shows, so it is not formatted: make a filesystem on it by block access. Or {}",
      volume.id, or_else);
}

absl::Status FilesystemStager::Stage(const StageSpec& spec, const NodeVolume& volume, bool in_use) {
  if (!in_use) MOORING_RETURN_IF_ERROR(CheckWhole(volume));
  return store_.MountOnRecord(StagedUse(spec), [&]() -> absl::Status {
    MOORING_ASSIGN_OR_RETURN(const std::string fs_type, Prepare(spec, volume, in_use));
    return Mount(spec, volume, fs_type, in_use);
  });
}

// Formats, checks and grows an unused filesystem. Returns its type.
absl::StatusOr<std::string> FilesystemStager::Prepare(const StageSpec& spec, const NodeVolume& volume, bool in_use) {
  const std::string& asked = spec.capability.fs_type;
  MOORING_ASSIGN_OR_RETURN(const FilesystemInfo found, mounter_.Probe(volume.path));
  if (found.content == FilesystemInfo::Content::kEmpty && !in_use) {
    if (!volume.raw || found.whole) return Format(volume, asked);
    return MayHideData(volume);
  }
  if (found.content == FilesystemInfo::Content::kForeign && StagingOf(volume) == Staging::kBlockDevice) {
    const std::string other = OtherFsTypeFor(found.type, asked, volume.fs_type);
    if (!other.empty()) return other;
  }
  if (found.content != FilesystemInfo::Content::kFilesystem) {
    return FailedPrecondition("volume {} holds {}, no filesystem of {}: it is neither mounted nor formatted", volume.id,
                              found.type.empty() ? "no filesystem" : found.type, SupportedFsTypes());
  }
  if (!asked.empty() && asked != found.type) {
    return FailedPrecondition("volume {} holds an {} filesystem, {} was asked for: it is not formatted again",
                              volume.id, found.type, asked);
  }
  if (!in_use) MOORING_RETURN_IF_ERROR(CheckAndGrow(volume, found));
  return found.type;
}

absl::StatusOr<std::string> FilesystemStager::Format(const NodeVolume& volume, const std::string& asked_type) {
  const std::string& type = volume.fs_type;
  // ValidateVolumeCapabilities refuses it too; the volume may be too small for it.
  if (!asked_type.empty() && asked_type != type) {
    return FailedPrecondition("volume {} was made for {}, {} was asked for: it is not formatted", volume.id, type,
                              asked_type);
  }
  if (!IsMadeHere(type)) {
    return FailedPrecondition("volume {} is empty, and a {} is never made here: make one on {} (mkfs.{})", volume.id,
                              type, Quote(volume.path), type);
  }
  if (const std::uint64_t least = MinimumBytes(AccessType::kMount, type); volume.bytes < least) {
    return FailedPrecondition("volume {} has {}, and a filesystem {} needs at least {}: expand it first", volume.id,
                              SizeText(volume.bytes), type, SizeText(least));
  }
  const absl::Status formatted = mounter_.Format({volume.path, type, volume.tuning.making.format});
  if (formatted.ok()) return type;
  // Another process on the same state directory may have formatted the volume: it is not empty, or is locked.
  if (!absl::IsFailedPrecondition(formatted) && !absl::IsAborted(formatted)) return formatted;
  const absl::StatusOr<FilesystemInfo> now = mounter_.Probe(volume.path);
  const bool done = now.ok() && now->content == FilesystemInfo::Content::kFilesystem && now->type == type;
  return done ? absl::StatusOr<std::string>(type) : formatted;
}

absl::Status FilesystemStager::CheckAndGrow(const NodeVolume& volume, FilesystemInfo found) {
  if (found.size_bytes > found.device_bytes) {
    return FailedPrecondition("volume {} is cut short: its {} filesystem has {} bytes, its image {} only has {}",
                              volume.id, found.type, found.size_bytes, Quote(volume.path), found.device_bytes);
  }
  if (found.needs_check) {
    MOORING_RETURN_IF_ERROR(mounter_.Check(volume.path, found.type));
    MOORING_ASSIGN_OR_RETURN(found, mounter_.Probe(volume.path));  // the check may have changed its size
  }
  if (StagingOf(volume) == Staging::kBlockDevice) return absl::OkStatus();  // see Finish
  // The volume may have grown while it was not staged. xfs and btrfs grow only while mounted: Finish.
  constexpr std::uint64_t kSmallestGrowth = 4096;
  const bool smaller = found.size_bytes + kSmallestGrowth <= found.device_bytes;
  return smaller && found.type == "ext4" ? GrowUnmounted(volume, found.type) : absl::OkStatus();
}

absl::Status FilesystemStager::Mount(const StageSpec& spec, const NodeVolume& volume, const std::string& fs_type,
                                     bool in_use) {
  // Its filesystem may be another than the one that the volume was made for.
  if (const absl::Status suits = CheckFlagsSuit(volume, spec.capability, fs_type); !suits.ok()) {
    return WithCode(absl::StatusCode::kFailedPrecondition, suits);
  }
  MOORING_RETURN_IF_ERROR(CheckOwnerSuits(volume, spec.capability, fs_type));
  MountRequest request;
  request.source = volume.path;
  request.label = LabelFor(volume.id);
  request.fs_type = fs_type;
  request.target = spec.staging_path;
  request.flags = StagedFlags(spec, volume);
  request.options = spec.capability.options.options;
  request.propagation = StagedPropagation(spec);
  request.group = spec.capability.mount_group;
  request.idmap = StagedIdMap(spec, volume);
  if (!in_use && IsMadeHere(fs_type)) request.new_root = volume.tuning.making.root;
  MOORING_RETURN_IF_ERROR(mounter_.Mount(request));
  const absl::Status finished = Finish(spec, volume, fs_type, in_use);
  if (finished.ok()) return finished;
  const DeadlineScope fresh = DeadlineScope::Fresh(kRollback);  // the call's own deadline may be over
  const bool made_here = staging_by_ == StagingBy::kPlugin || spec.as_target;
  mounter_.Unmount({.target = spec.staging_path, .remove_target = made_here}).IgnoreError();
  return finished;
}

absl::Status FilesystemStager::Finish(const StageSpec& spec, const NodeVolume& volume, const std::string& fs_type,
                                      bool in_use) {
  if (in_use || !IsSizedHere(volume)) return absl::OkStatus();
  const bool was_grown = StagingOf(volume) == Staging::kLoopDevice && fs_type == "ext4";  // before it was mounted
  if (!was_grown) MOORING_RETURN_IF_ERROR(GrowMounted(volume, spec.staging_path, fs_type));
  return volume.tuning.read_ahead_bytes == 0 ? absl::OkStatus() : devices_.TuneAll(volume);
}

// FAILED_PRECONDITION for an unmounted filesystem means that it has errors or is in use.
absl::Status FilesystemStager::GrowUnmounted(const NodeVolume& volume, const std::string& fs_type) {
  const absl::Status grown = mounter_.Grow(volume.path, fs_type);
  if (grown.ok() || MaySucceedLater(grown) || absl::IsFailedPrecondition(grown)) return grown;
  MOORING_RETURN_IF_ERROR(mounter_.Check(volume.path, fs_type));
  WarnNotGrown(volume, grown);
  return absl::OkStatus();
}

absl::Status FilesystemStager::GrowMounted(const NodeVolume& volume, const std::string& path,
                                           const std::string& fs_type) {
  const absl::Status grown = mounter_.Grow(path, fs_type);
  if (grown.ok() || MaySucceedLater(grown)) return grown;
  if (absl::IsDataLoss(grown)) {
    return Internal("{}: the filesystem of volume {} is damaged; check it, or restore the volume", Message(grown),
                    volume.id);
  }
  MOORING_ASSIGN_OR_RETURN(const PathInfo place, mounter_.Find(path));
  if (!place.mount || !place.failure.empty() || place.mount->superblock_read_only) return grown;
  WarnNotGrown(volume, grown);
  return absl::OkStatus();
}

}  // namespace mooring
