#include <fmt/format.h>

#include <algorithm>

#include "base/deadline.h"
#include "base/log.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/loop/settle.h"
#include "plugin/model/repeat.h"
#include "plugin/model/volume_size.h"
#include "plugin/node/node_volumes.h"

namespace mooring {
namespace {

bool IsReadOnly(const StageSpec& spec) {
  return spec.capability.options.flags.read_only || spec.read_only || IsReaderOnly(spec.capability.mode);
}

absl::Status StagedOtherwise(const StageSpec& spec, const std::string& how) {
  return AlreadyExists(fmt::format("volume {} is staged at {} with another capability ({}); asked for: {}",
                                   spec.volume_id, Quote(spec.staging_path), WithoutMountFlags(how),
                                   WithoutMountFlags(ToString(spec.capability))));
}

// Another program's loop device over the image is an unknown use of the volume. Devices on top of a block device are
// allowed.
absl::Status CheckLoopsAreOurs(const std::vector<LoopInfo>& loops, const NodeVolume& volume) {
  for (const LoopInfo& loop : loops) {
    if (loop.backing_rdev != 0 || OwnerOf(loop) == volume.id) continue;
    return FailedPrecondition(
        fmt::format("volume {} is in use through {} ({}), which this driver did not make: end that use first",
                    volume.id, loop.device, Quote(loop.label)));
  }
  return absl::OkStatus();
}

bool AnyInUseAsFilesystem(const std::vector<LoopInfo>& loops) {
  return std::any_of(loops.begin(), loops.end(), [](const LoopInfo& loop) { return loop.auto_clear && loop.mounted; });
}

// Waits for devices that disappear. A device disappears a moment after its last user, and later if another program
// inspects it. A mounted device without a known use is the unattached mount of a killed process.
absl::StatusOr<std::vector<LoopInfo>> LoopsThatStay(LoopDevices& devices, const std::string& path, bool known_use) {
  const auto is_going = [&](const LoopInfo& loop) { return loop.auto_clear && !(loop.mounted && known_use); };
  return AskUntilSettled([&] { return devices.FindLoops(path); },
                         [&](const auto& loops) { return std::any_of(loops.begin(), loops.end(), is_going); });
}

absl::Status Failed(const std::string& path, const PathInfo& place) {
  return FailedPrecondition(
      fmt::format("the filesystem mounted at {} does not answer any more ({}): unpublish and "
                  "unstage the volume",
                  Quote(path), place.failure));
}

}  // namespace

VolumeUse StagedUse(const StageSpec& spec) {
  VolumeUse use;
  use.path = spec.staging_path;
  use.volume_id = spec.volume_id;
  use.role = VolumeUse::Role::kStage;
  use.access_type = spec.capability.access_type;
  use.mode = spec.capability.mode;
  use.read_only = IsReadOnly(spec);
  use.capability = ToString(spec.capability);
  use.options = ToString(spec.capability.options.options);
  if (!spec.as_target) return use;
  use.role = VolumeUse::Role::kTarget;
  use.asked_propagation = spec.as_target->asked;
  use.propagation = spec.as_target->propagation;
  return use;
}

MountFlags StagedFlags(const StageSpec& spec, const NodeVolume& volume) {
  MountFlags flags = Tuned(spec.capability.options.flags, volume.tuning);
  flags.read_only = IsReadOnly(spec);
  return FlagsOfNewMount(flags, spec.capability);
}

Propagation StagedPropagation(const StageSpec& spec) {
  return spec.as_target ? spec.as_target->propagation : Propagation::kPrivate;
}

absl::Status NodeVolumes::Stage(const StageSpec& spec, const Call& call) {
  MOORING_ASSIGN_OR_RETURN(const Hold hold, Acquire(spec.volume_id, spec.staging_path, call));
  source_.WaitFor(spec.volume_id, call.wait_until);
  MOORING_ASSIGN_OR_RETURN(const NodeVolume volume, source_.Find(spec.volume_id));
  MOORING_ASSIGN_OR_RETURN(const PathInfo place, mounter_.Find(spec.staging_path));
  MOORING_RETURN_IF_ERROR(CheckStagingDirectory(spec.staging_path, place));
  MOORING_RETURN_IF_ERROR(CheckSuits(volume, spec.capability));
  if (place.mount) return CheckStagedAlike(spec, volume, place);
  MOORING_RETURN_IF_ERROR(CheckBlockStagedThere(spec));
  if (spec.capability.access_type == AccessType::kMount) return StageMount(spec, volume, place);
  return StagingOf(volume) == Staging::kBlockDevice ? StageRawDevice(spec, volume) : StageBlock(spec, volume);
}

// With StagingBy::kPlugin the mount creates the directory. A block volume is not mounted at its staging path.
absl::Status NodeVolumes::CheckStagingDirectory(const std::string& path, const PathInfo& place) const {
  if (place.kind == PathInfo::Kind::kDirectory) return absl::OkStatus();
  if (place.kind != PathInfo::Kind::kMissing) {
    return FailedPrecondition(fmt::format("staging path {} is not a directory", Quote(path)));
  }
  if (makes_staging_) return absl::OkStatus();
  return FailedPrecondition(
      fmt::format("staging path {} is not there: the orchestrator makes this directory", Quote(path)));
}

absl::Status NodeVolumes::StageMount(const StageSpec& spec, const NodeVolume& volume, const PathInfo& place) {
  if (!place.empty) {
    return FailedPrecondition(fmt::format("{} {} is not empty: a mount would hide what is in it",
                                          spec.as_target ? "target path" : "staging path", Quote(spec.staging_path)));
  }
  switch (StagingOf(volume)) {
    case Staging::kLoopDevice:
      return StageFilesystem(spec, volume);
    case Staging::kBlockDevice:
      return StageDevice(spec, volume);
    case Staging::kDirectory:
      return StageDirectory(spec, volume);
    case Staging::kMemory:
      return StageMemory(spec, volume);
  }
  return Internal("unknown way to stage a volume");
}

// A block volume is not mounted at its staging path, so only the record can tell.
absl::Status NodeVolumes::CheckBlockStagedThere(const StageSpec& spec) {
  MOORING_ASSIGN_OR_RETURN(const std::optional<VolumeUse> known, store_.Get(spec.staging_path));
  if (!known || known->adopted()) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(const bool live, IsLive(*known));
  if (!live) return absl::OkStatus();
  if (known->volume_id != spec.volume_id) {
    return FailedPrecondition(
        fmt::format("staging path {} is in use for volume {}", Quote(spec.staging_path), known->volume_id));
  }
  return known->capability == ToString(spec.capability) ? absl::OkStatus() : StagedOtherwise(spec, known->capability);
}

// Accepts the mount at the staging path if it is the requested one.
absl::Status NodeVolumes::CheckStagedAlike(const StageSpec& spec, const NodeVolume& volume, const PathInfo& place) {
  if (!IsMountOf(volume, place)) {
    const std::string owner = Owner(place);
    return FailedPrecondition(
        fmt::format("staging path {} is a mount of {} already", Quote(spec.staging_path),
                    owner.empty() ? place.mount->fs_type + ", not of this driver" : "volume " + owner));
  }
  if (!place.failure.empty()) return Failed(spec.staging_path, place);
  MOORING_ASSIGN_OR_RETURN(const std::optional<VolumeUse> known, store_.Get(spec.staging_path));
  VolumeUse wanted = StagedUse(spec);
  wanted.done = true;
  const bool other_type = spec.capability.access_type == AccessType::kBlock ||
                          (!spec.capability.fs_type.empty() && spec.capability.fs_type != place.mount->fs_type);
  MountFlags flags = place.mount->flags;
  if (known &&
      IsAskedAgain(known->capability, wanted.capability)) {  // a change of its settings may have been interrupted
    MOORING_RETURN_IF_ERROR(TuneMount(volume, *known));
    flags.atime = StagedFlags(spec, volume).atime;
  }
  if (other_type || flags != StagedFlags(spec, volume)) {
    return StagedOtherwise(spec, "mount " + place.mount->fs_type + (place.mount->flags.read_only ? ", read-only" : ""));
  }
  if (known && !known->adopted() && !IsAskedAgain(known->capability, wanted.capability))
    return StagedOtherwise(spec, known->capability);
  if (known == wanted) return absl::OkStatus();
  // An earlier call was interrupted between the mount and FinishMounted.
  MOORING_RETURN_IF_ERROR(FinishMounted(spec, volume, place.mount->fs_type, false));
  return Record(wanted);
}

// All mounts of a volume share one superblock with one set of options.
absl::Status NodeVolumes::CheckSameOptions(const StageSpec& spec) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<VolumeUse> uses, store_.OfVolume(spec.volume_id));
  const std::string wanted = ToString(spec.capability.options.options);
  for (const VolumeUse& use : uses) {
    if (use.path == spec.staging_path || use.access_type == AccessType::kBlock || use.adopted()) continue;
    MOORING_ASSIGN_OR_RETURN(const bool live, IsLive(use));
    if (live && use.options != wanted) {
      return FailedPrecondition(
          fmt::format("volume {} is in use at {} with other filesystem options (mount_flags) than are asked for. All "
                      "stagings of a volume share one filesystem: unstage it there first",
                      spec.volume_id, Quote(use.path)));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> NodeVolumes::IsMountedElsewhere(const StageSpec& spec) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<VolumeUse> uses, store_.OfVolume(spec.volume_id));
  for (const VolumeUse& use : uses) {
    if (use.path == spec.staging_path || use.access_type == AccessType::kBlock) continue;
    MOORING_ASSIGN_OR_RETURN(const bool live, IsLive(use));
    if (live) return true;
  }
  return false;
}

// Formats, checks and grows an unused filesystem. Returns its type.
absl::StatusOr<std::string> NodeVolumes::PrepareFilesystem(const StageSpec& spec, const NodeVolume& volume,
                                                           bool in_use) {
  const std::string& asked = spec.capability.fs_type;
  MOORING_ASSIGN_OR_RETURN(FilesystemInfo found, mounter_.Probe(volume.path));
  if (found.content == FilesystemInfo::Content::kEmpty && !in_use) {
    const std::string& type = volume.fs_type;
    if (!asked.empty() &&
        asked != type) {  // ValidateVolumeCapabilities refuses it too; the volume may be too small for it
      return FailedPrecondition(
          fmt::format("volume {} was made for {}, {} was asked for: it is not formatted", volume.id, type, asked));
    }
    if (const std::uint64_t least = MinimumBytes(AccessType::kMount, type); volume.bytes < least) {
      return FailedPrecondition(fmt::format("volume {} has {}, and a filesystem {} needs at least {}: expand it first",
                                            volume.id, SizeText(volume.bytes), type, SizeText(least)));
    }
    const absl::Status formatted = mounter_.Format(volume.path, type);
    if (formatted.ok()) return type;
    // Another process on the same state directory may have formatted the volume.
    const absl::StatusOr<FilesystemInfo> now = mounter_.Probe(volume.path);
    const bool done = now.ok() && now->content == FilesystemInfo::Content::kFilesystem && now->type == type;
    return done ? absl::StatusOr<std::string>(type) : formatted;
  }
  if (found.content != FilesystemInfo::Content::kFilesystem) {
    return FailedPrecondition(
        fmt::format("volume {} holds {}, no filesystem of {}: it is neither mounted nor formatted", volume.id,
                    found.type.empty() ? "no filesystem" : found.type, SupportedFsTypes()));
  }
  if (!asked.empty() && asked != found.type) {
    return FailedPrecondition(fmt::format(
        "volume {} holds an {} filesystem, {} was asked for: it is not formatted again", volume.id, found.type, asked));
  }
  if (in_use) return found.type;
  if (found.size_bytes > found.device_bytes) {
    return FailedPrecondition(
        fmt::format("volume {} is cut short: its {} filesystem has {} bytes, its image {} only has {}", volume.id,
                    found.type, found.size_bytes, Quote(volume.path), found.device_bytes));
  }
  if (found.needs_check) {
    MOORING_RETURN_IF_ERROR(mounter_.Check(volume.path, found.type));
    MOORING_ASSIGN_OR_RETURN(found, mounter_.Probe(volume.path));  // the check may have changed its size
  }
  if (StagingOf(volume) == Staging::kBlockDevice) return found.type;  // its owner chose the size of the filesystem
  // The volume may have grown while it was not staged. xfs and btrfs grow only while mounted: FinishMounted.
  constexpr std::uint64_t kSmallestGrowth = 4096;
  const bool smaller = found.size_bytes + kSmallestGrowth <= found.device_bytes;
  if (smaller && found.type == "ext4") MOORING_RETURN_IF_ERROR(GrowUnmounted(volume, found.type));
  return found.type;
}

absl::Status NodeVolumes::MountStaged(const StageSpec& spec, const NodeVolume& volume, const std::string& fs_type,
                                      bool in_use) {
  MountRequest request;
  request.source = volume.path;
  request.label = LabelFor(volume.id);
  request.fs_type = fs_type;
  request.target = spec.staging_path;
  request.flags = StagedFlags(spec, volume);
  request.options = spec.capability.options.options;
  request.propagation = StagedPropagation(spec);
  request.group = spec.capability.mount_group;
  MOORING_RETURN_IF_ERROR(mounter_.Mount(request));
  const absl::Status finished = FinishMounted(spec, volume, fs_type, in_use);
  if (finished.ok()) return finished;
  const DeadlineScope fresh = DeadlineScope::Fresh(kRollback);  // the call's own deadline may be over
  mounter_.Unmount({.target = spec.staging_path, .remove_target = makes_staging_ || spec.as_target}).IgnoreError();
  return finished;
}

// A device in use already has its settings.
absl::Status NodeVolumes::FinishMounted(const StageSpec& spec, const NodeVolume& volume, const std::string& fs_type,
                                        bool in_use) {
  // The owner of a block device chose the size of its filesystem.
  if (in_use || StagingOf(volume) != Staging::kLoopDevice) return absl::OkStatus();
  if (fs_type != "ext4") MOORING_RETURN_IF_ERROR(GrowMounted(volume, spec.staging_path, fs_type));
  return volume.tuning.read_ahead_bytes == 0 ? absl::OkStatus() : TuneDevices(volume);
}

absl::Status NodeVolumes::StageFilesystem(const StageSpec& spec, const NodeVolume& volume) {
  MOORING_RETURN_IF_ERROR(CheckSameOptions(spec));
  MOORING_ASSIGN_OR_RETURN(const bool known_use, IsMountedElsewhere(spec));
  MOORING_ASSIGN_OR_RETURN(std::vector<LoopInfo> loops, LoopsThatStay(mounter_, volume.path, known_use));
  MOORING_RETURN_IF_ERROR(CheckLoopsAreOurs(loops, volume));
  const bool in_use = AnyInUseAsFilesystem(loops);
  if (!loops.empty() && !in_use) {  // it may be left from an interrupted block use
    MOORING_RETURN_IF_ERROR(ReleaseDevices(spec.volume_id));
    MOORING_ASSIGN_OR_RETURN(loops, LoopsThatStay(mounter_, volume.path, known_use));
  }
  if (!loops.empty() && !in_use) {
    return FailedPrecondition(
        fmt::format("volume {} is in use as a block device ({}): unstage that first", volume.id, loops.front().device));
  }
  if (!in_use) MOORING_RETURN_IF_ERROR(CheckWhole(volume));
  return PutStaged(spec, [&]() -> absl::Status {
    MOORING_ASSIGN_OR_RETURN(const std::string fs_type, PrepareFilesystem(spec, volume, in_use));
    return MountStaged(spec, volume, fs_type, in_use);
  });
}

// Records the use, mounts, and records that it is done.
absl::Status NodeVolumes::PutStaged(const StageSpec& spec, const std::function<absl::Status()>& mount) {
  VolumeUse use = StagedUse(spec);
  MOORING_RETURN_IF_ERROR(store_.Put(use));
  if (const absl::Status mounted = mount(); !mounted.ok()) {
    store_.Delete(spec.staging_path).IgnoreError();
    return Unexpected(mounted);
  }
  use.done = true;
  return Record(use);
}

absl::Status NodeVolumes::StageBlock(const StageSpec& spec, const NodeVolume& volume) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<LoopInfo> loops, mounter_.FindLoops(volume.path));
  MOORING_RETURN_IF_ERROR(CheckLoopsAreOurs(loops, volume));
  if (AnyInUseAsFilesystem(loops)) {
    return FailedPrecondition(
        fmt::format("volume {} is in use as a filesystem ({}): raw access would destroy it; unpublish and "
                    "unstage it first",
                    volume.id, loops.front().device));
  }
  if (loops.empty()) MOORING_RETURN_IF_ERROR(CheckWhole(volume));
  MOORING_ASSIGN_OR_RETURN(const std::optional<VolumeUse> before, store_.Get(spec.staging_path));
  VolumeUse use = StagedUse(spec);
  MOORING_RETURN_IF_ERROR(store_.Put(use));
  const absl::StatusOr<LoopInfo> loop = mounter_.AttachLoop(
      {.backing_file = volume.path, .label = LabelFor(volume.id), .read_only = false, .held = true});
  use.device = loop.ok() ? loop->device : "";
  use.done = true;
  absl::Status staged = loop.ok() ? store_.Put(use) : Unexpected(loop.status());
  if (staged.ok() && volume.tuning.read_ahead_bytes != 0) staged = Unexpected(TuneDevice(volume, *loop));
  if (staged.ok()) return staged;
  // A failed repetition must not delete the record of the first call.
  (before ? store_.Put(*before) : store_.Delete(spec.staging_path)).IgnoreError();
  if (!before) ReleaseDevices(spec.volume_id, spec.staging_path).IgnoreError();
  return staged;
}

absl::StatusOr<std::string> NodeVolumes::EndStage(const std::string& volume_id, const std::string& staging_path,
                                                  const Call& call) {
  MOORING_ASSIGN_OR_RETURN(Ending ending, AcquireToEnd(volume_id, staging_path, call));
  MOORING_RETURN_IF_ERROR(EndStaging(volume_id, staging_path, ending));
  return std::move(ending.owner);
}

absl::Status NodeVolumes::EndStaging(const std::string& volume_id, const std::string& staging_path,
                                     const Ending& ending) {
  const bool is_block = ending.known && ending.known->access_type == AccessType::kBlock;
  if (ending.place.mount || makes_staging_) {
    const absl::Status taken = UnmountVolume(volume_id, staging_path, ending.place, makes_staging_);
    // A block volume is not mounted at its staging path, so other files in that directory do not keep the device.
    if (!taken.ok() && (!is_block || ending.place.mount)) return taken;
    if (!taken.ok()) log::Warning("a staging directory is left", {{"volume", volume_id}, {"cause", Message(taken)}});
  }
  if (!ending.known) return absl::OkStatus();
  // The record is deleted last: if releasing the devices fails, the next call tries again.
  if (is_block) {
    MOORING_RETURN_IF_ERROR(ReleaseDevices(ending.known->volume_id, staging_path));
  }
  return DeleteRecord(staging_path);
}

absl::StatusOr<bool> NodeVolumes::HasTarget(const std::string& volume_id) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<VolumeUse> uses, store_.OfVolume(volume_id));
  for (const VolumeUse& use : uses) {
    if (use.role != VolumeUse::Role::kTarget) continue;
    MOORING_ASSIGN_OR_RETURN(const bool live, IsLive(use));
    if (live) return true;
  }
  return false;
}

// For orchestrators that do not unstage: a volume that stays staged could never be deleted. A caller between Stage and
// Publish finds the volume not staged, and starts again.
absl::Status NodeVolumes::UnstageUnused(const std::string& volume_id, const Call& call) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<VolumeUse> uses, store_.OfVolume(volume_id));
  absl::Status outcome;
  for (const VolumeUse& use : uses) {
    if (use.role == VolumeUse::Role::kStage) outcome.Update(UnstageIfUnused(volume_id, use.path, call));
  }
  return outcome;
}

absl::Status NodeVolumes::UnstageIfUnused(const std::string& volume_id, const std::string& staging_path,
                                          const Call& call) {
  MOORING_ASSIGN_OR_RETURN(const Ending ending, AcquireToEnd(volume_id, staging_path, call));
  MOORING_ASSIGN_OR_RETURN(const bool used, HasTarget(volume_id));
  return used ? absl::OkStatus() : EndStaging(volume_id, staging_path, ending);
}

}  // namespace mooring
