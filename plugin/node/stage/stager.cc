#include "plugin/node/stage/stager.h"

#include <algorithm>
#include <vector>

#include "base/file/path.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/loop/loop_mounted.h"
#include "mounter/loop/settle.h"
#include "plugin/model/volume_mount.h"
#include "plugin/node/uses/volume_kind.h"

namespace mooring {
namespace {

// Another program's loop device over the image is an unknown use of the volume. Devices on top of a block device are
// allowed.
absl::Status CheckLoopsAreOurs(const std::vector<LoopInfo>& loops, const NodeVolume& volume) {
  for (const LoopInfo& loop : loops) {
    if (loop.backing_rdev != 0 || OwnerOf(loop) == volume.id || (loop.raw && loop.label.empty())) continue;
    return FailedPrecondition("volume {} is in use through {} ({}), which this driver did not make: end that use first",
                              volume.id, loop.device, Quote(loop.label));
  }
  return absl::OkStatus();
}

bool AnyInUseAsFilesystem(const std::vector<LoopInfo>& loops) {
  return std::any_of(loops.begin(), loops.end(),
                     [](const LoopInfo& loop) { return !loop.raw && loop.auto_clear && loop.mounted; });
}

// Waits for devices that disappear. A device disappears a moment after its last user, and later if another program
// inspects it. A mounted device without a known use is the unattached mount of a killed process.
absl::StatusOr<std::vector<LoopInfo>> LoopsThatStay(LoopDevices& devices, const std::string& path, bool known_use) {
  const auto is_going = [&](const LoopInfo& loop) {
    if (loop.raw) return loop.is_going();
    return loop.auto_clear && !(loop.mounted && known_use);
  };
  return AskUntilSettled([&] { return devices.FindLoops(path); },
                         [&](const auto& loops) { return std::any_of(loops.begin(), loops.end(), is_going); });
}

absl::Status StagedOtherwise(const StageSpec& spec, const std::string& how) {
  return AlreadyExists("volume {} is staged at {} with another capability ({}); asked for: {}", spec.volume_id,
                       Quote(spec.staging_path), WithoutMountFlags(how), WithoutMountFlags(ToString(spec.capability)));
}

absl::Status StagedFilesystemFailed(const StageSpec& spec, const PathInfo& place) {
  return FailedPrecondition(
      "the filesystem mounted at {} does not answer any more ({}): unpublish and unstage the volume",
      Quote(spec.staging_path), place.failure);
}

}  // namespace

// A volume in use has its image attached. A restore or rsync may have put another file in its place: that would be
// used beside the first, with other data.
absl::Status LoopStager::CheckNotReplaced(const NodeVolume& volume, const std::vector<LoopInfo>& loops) {
  if (!loops.empty()) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(const std::optional<VolumeUse> use,
                           finder_.FindLive(volume.id, [](const VolumeUse&) { return true; }));
  if (!use) return absl::OkStatus();
  return FailedPrecondition(
      "volume {} is in use at {}, and {} is another file now than the one in use: it was replaced, or its filesystem "
      "was mounted anew. Copy the files of the volume from there first: what was written since is lost with the last "
      "use of a replaced file. Then unpublish and unstage the volume everywhere, and stage it again",
      volume.id, Quote(use->path), Quote(volume.path));
}

// Returns whether the image is mounted elsewhere. Otherwise it releases the devices of an interrupted block use.
absl::StatusOr<bool> LoopStager::ReleaseUnlessMounted(const StageSpec& spec, const NodeVolume& volume) {
  const auto is_mounted_elsewhere = [&](const VolumeUse& use) {
    return use.path != spec.staging_path && use.access_type == AccessType::kMount;
  };
  MOORING_ASSIGN_OR_RETURN(const std::optional<VolumeUse> known, finder_.FindLive(volume.id, is_mounted_elsewhere));
  MOORING_ASSIGN_OR_RETURN(std::vector<LoopInfo> loops, LoopsThatStay(mounter_, volume.path, known.has_value()));
  MOORING_RETURN_IF_ERROR(CheckLoopsAreOurs(loops, volume));
  MOORING_RETURN_IF_ERROR(CheckNotReplaced(volume, loops));
  if (AnyInUseAsFilesystem(loops)) return true;
  if (loops.empty()) return false;
  MOORING_RETURN_IF_ERROR(devices_.Release(volume.id));
  MOORING_ASSIGN_OR_RETURN(loops, LoopsThatStay(mounter_, volume.path, known.has_value()));
  if (loops.empty()) return false;
  return FailedPrecondition("volume {} is in use as a block device ({}): unstage that first", volume.id,
                            loops.front().device);
}

absl::Status LoopStager::StageFilesystem(const StageSpec& spec, const NodeVolume& volume) {
  MOORING_RETURN_IF_ERROR(filesystems_.CheckSameOptions(spec));
  MOORING_ASSIGN_OR_RETURN(const bool in_use, ReleaseUnlessMounted(spec, volume));
  return filesystems_.Stage(spec, volume, in_use);
}

absl::Status LoopStager::StageBlock(const StageSpec& spec, const NodeVolume& volume) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<LoopInfo> loops, mounter_.FindLoops(volume.path));
  MOORING_RETURN_IF_ERROR(CheckLoopsAreOurs(loops, volume));
  if (AnyInUseAsFilesystem(loops)) {
    return FailedPrecondition(
        "volume {} is in use as a filesystem ({}): raw access would destroy it; unpublish and unstage it first",
        volume.id, loops.front().device);
  }
  MOORING_RETURN_IF_ERROR(CheckNotReplaced(volume, loops));
  if (loops.empty()) MOORING_RETURN_IF_ERROR(CheckWhole(volume));
  return AttachOnRecord(spec, volume);
}

absl::Status LoopStager::AttachOnRecord(const StageSpec& spec, const NodeVolume& volume) {
  MOORING_ASSIGN_OR_RETURN(const std::optional<VolumeUse> before, store_.Get(spec.staging_path));
  VolumeUse use = StagedUse(spec);
  MOORING_RETURN_IF_ERROR(store_.Put(use));
  const absl::StatusOr<LoopInfo> loop = devices_.Attach(volume);
  use.device = loop.ok() ? loop->device : "";
  use.done = true;
  absl::Status staged = loop.ok() ? store_.Put(use) : Unexpected(loop.status());
  if (staged.ok() && volume.tuning.read_ahead_bytes != 0) staged = Unexpected(devices_.Tune(volume, *loop));
  if (staged.ok()) return staged;
  // A failed repetition must not delete the record of the first call.
  (before ? store_.Put(*before) : store_.Delete(spec.staging_path)).IgnoreError();
  if (!before) devices_.Release(spec.volume_id, spec.staging_path).IgnoreError();
  return staged;
}

absl::Status Stager::Stage(const StageSpec& spec, const NodeVolume& volume) {
  MOORING_ASSIGN_OR_RETURN(const PathInfo place, mounts_.Find(spec.staging_path));
  MOORING_RETURN_IF_ERROR(CheckStagingDirectory(spec.staging_path, place));
  MOORING_RETURN_IF_ERROR(CheckSuits(volume, spec.capability));
  if (place.mount) return CheckStagedAlike(spec, volume, place);
  MOORING_RETURN_IF_ERROR(CheckBlockStagedThere(spec));
  if (spec.capability.access_type == AccessType::kBlock) {
    return StagingOf(volume) == Staging::kBlockDevice ? StageRawDevice(spec, volume) : loops_.StageBlock(spec, volume);
  }
  return StageMount(spec, volume, place, [&](const PathInfo& there) { return CheckStagedAlike(spec, volume, there); });
}

// With StagingBy::kPlugin the mount creates the directory. A block volume is not mounted at its staging path.
absl::Status Stager::CheckStagingDirectory(const std::string& path, const PathInfo& place) const {
  if (place.kind == PathInfo::Kind::kDirectory) return absl::OkStatus();
  if (place.kind != PathInfo::Kind::kMissing) {
    return FailedPrecondition("staging path {} is not a directory", Quote(path));
  }
  if (staging_by_ == StagingBy::kPlugin) return absl::OkStatus();
  return FailedPrecondition("staging path {} is not there: the orchestrator makes this directory", Quote(path));
}

absl::Status Stager::StageMount(const StageSpec& spec, const NodeVolume& volume, const PathInfo& place,
                                const std::function<absl::Status(const PathInfo& there)>& check) {
  const absl::Status staged = MountAnew(spec, volume, place);
  if (!absl::IsFailedPrecondition(staged)) return staged;
  const absl::StatusOr<PathInfo> now = mounts_.Find(spec.staging_path);
  return now.ok() && now->mount ? check(*now) : staged;
}

absl::Status Stager::MountAnew(const StageSpec& spec, const NodeVolume& volume, const PathInfo& place) {
  if (!place.empty) {
    return FailedPrecondition("{} {} is not empty: a mount would hide what is in it; move it away",
                              spec.as_target ? "target path" : "staging path", Quote(spec.staging_path));
  }
  switch (StagingOf(volume)) {
    case Staging::kLoopDevice:
      return loops_.StageFilesystem(spec, volume);
    case Staging::kBlockDevice:
      return StageDevice(spec, volume);
    case Staging::kDirectory:
      return StageBind(volume.path, spec, volume);
    case Staging::kMemory:
      return StageMemory(spec, volume);
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
    return FailedPrecondition("staging path {} is in use for volume {}", Quote(spec.staging_path), known->volume_id);
  }
  return known->capability == ToString(spec.capability) ? absl::OkStatus() : StagedOtherwise(spec, known->capability);
}

// Accepts the mount at the staging path if it is the requested one.
absl::Status Stager::CheckStagedAlike(const StageSpec& spec, const NodeVolume& volume, const PathInfo& place) {
  if (!IsMountOf(volume, place)) {
    return FailedPrecondition("staging path {} is a mount of {} already", Quote(spec.staging_path),
                              finder_.OwnerText(place));
  }
  if (!place.failure.empty()) return StagedFilesystemFailed(spec, place);
  MOORING_ASSIGN_OR_RETURN(const std::optional<VolumeUse> known, store_.Get(spec.staging_path));
  if (known && !known->adopted() && known->role != VolumeUse::Role::kStage) {
    return FailedPrecondition("volume {} is published at {}: stage it at another path", spec.volume_id,
                              Quote(spec.staging_path));
  }
  MOORING_RETURN_IF_ERROR(CheckIdsNotMapped(spec, volume));
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

// Each target maps the ids, and the kernel maps those of a mount only once.
absl::Status Stager::CheckIdsNotMapped(const StageSpec& spec, const NodeVolume& volume) {
  if (volume.tuning.idmap.empty()) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(const bool mapped, finder_.HasMappedIds(spec.staging_path));
  return mapped ? StagedOtherwise(spec, "with idmap, as a target") : absl::OkStatus();
}

// The records know the raw uses of the device, and so does the read-only loop device of a target.
absl::Status Stager::CheckNoRawUse(const std::string& volume_id) {
  const auto is_raw = [](const VolumeUse& use) { return use.access_type == AccessType::kBlock; };
  MOORING_ASSIGN_OR_RETURN(const std::optional<VolumeUse> raw, finder_.FindLive(volume_id, is_raw));
  if (!raw) return absl::OkStatus();
  return FailedPrecondition("volume {} is in use as a block device ({}): unpublish and unstage that first", volume_id,
                            raw->path);
}

absl::Status Stager::StageDevice(const StageSpec& spec, const NodeVolume& volume) {
  MOORING_RETURN_IF_ERROR(filesystems_.CheckSameOptions(spec));
  MOORING_RETURN_IF_ERROR(CheckNoRawUse(spec.volume_id));
  // Filesystems of other types are neither formatted nor checked, whether they are in use or not.
  MOORING_ASSIGN_OR_RETURN(const bool in_use, IsMountedAnywhere(std::string(NameOf(volume.path))));
  return filesystems_.Stage(spec, volume, in_use);
}

absl::Status Stager::StageRawDevice(const StageSpec& spec, const NodeVolume& volume) {
  MOORING_ASSIGN_OR_RETURN(bool in_use, IsMountedAnywhere(std::string(NameOf(volume.path))));
  // Sysfs does not show each filesystem. But a task may have claimed its own raw device.
  const absl::Status raw = CheckNoRawUse(spec.volume_id);
  if (!raw.ok() && !absl::IsFailedPrecondition(raw)) return raw;
  if (!in_use && raw.ok()) {
    MOORING_ASSIGN_OR_RETURN(in_use, disks_.IsInUse(volume.path));
  }
  if (in_use) {
    return FailedPrecondition(
        "volume {} is in use as a filesystem, or another program has claimed its device {}: raw access would destroy "
        "what is on it; unpublish, unstage or unmount it first",
        volume.id, volume.path);
  }
  MOORING_RETURN_IF_ERROR(CheckWhole(volume));
  VolumeUse use = StagedUse(spec);
  use.device = volume.path;
  use.done = true;  // a raw device needs no mount
  return store_.Put(use);
}

absl::Status Stager::StageBind(const std::string& source, const StageSpec& spec, const NodeVolume& volume) {
  BindRequest request;
  request.source = source;
  request.target = spec.staging_path;
  request.flags = StagedFlags(spec, volume);
  request.propagation = StagedPropagation(spec);
  request.group = spec.capability.mount_group;
  request.idmap = StagedIdMap(spec, volume);
  if (StagingOf(volume) == Staging::kDirectory) request.new_root = volume.tuning.making.root;
  return store_.MountOnRecord(StagedUse(spec), [&] { return mounts_.Bind(request); });
}

// The path at which the tmpfs is mounted, by a record or by the mount table. The ids of a target may be mapped, so a
// staging path comes first.
absl::StatusOr<std::optional<std::string>> Stager::FindMemory(const std::string& volume_id) {
  for (const VolumeUse::Role role : {VolumeUse::Role::kStage, VolumeUse::Role::kTarget}) {
    const auto has_role = [role](const VolumeUse& use) { return use.role == role; };
    MOORING_ASSIGN_OR_RETURN(const std::optional<VolumeUse> known, finder_.FindLive(volume_id, has_role));
    if (known) return known->path;
  }
  MOORING_ASSIGN_OR_RETURN(const std::vector<ListedMount> mounts, mounts_.List("/"));
  std::optional<std::string> mapped;
  for (const ListedMount& mount : mounts) {
    if (mount.fs_type != "tmpfs" || OwnerOf(mount) != volume_id) continue;
    // Another mount may hide it, and a mount of a subdirectory is not the volume.
    MOORING_ASSIGN_OR_RETURN(const PathInfo place, mounts_.Find(mount.target));
    if (!place.mount || place.mount->id != mount.id || mount.root != "/") continue;
    if (!mount.ids_mapped) return mount.target;
    mapped = mount.target;
  }
  return mapped;
}

// The ids of a copy would be those of the mount, and the kernel maps them only once.
absl::Status Stager::StageMemoryAgain(const std::string& from, const StageSpec& spec, const NodeVolume& volume) {
  if (volume.tuning.idmap.empty()) return StageBind(from, spec, volume);
  MOORING_ASSIGN_OR_RETURN(const bool mapped, finder_.HasMappedIds(from));
  if (!mapped) return StageBind(from, spec, volume);
  return FailedPrecondition(
      "volume {} is mounted only at {}, with idmap, so it cannot be mounted at {}: unpublish it there first", volume.id,
      Quote(from), Quote(spec.staging_path));
}

absl::Status Stager::StageMemory(const StageSpec& spec, const NodeVolume& volume) {
  MOORING_ASSIGN_OR_RETURN(const std::optional<std::string> there, FindMemory(volume.id));
  if (there) return StageMemoryAgain(*there, spec, volume);
  MountRequest request;
  request.source = LabelFor(volume.id);
  request.fs_type = "tmpfs";
  request.target = spec.staging_path;
  request.flags = StagedFlags(spec, volume);
  request.options = MemoryOptions(volume.bytes);
  const std::vector<FilesystemOption>& asked = spec.capability.options.options;
  request.options.insert(request.options.end(), asked.begin(), asked.end());
  request.options.push_back({"mode", "0755"});
  request.options.push_back({"huge", "never"});  // otherwise a file of one byte takes 2 MiB
  request.propagation = StagedPropagation(spec);
  request.group = spec.capability.mount_group;
  request.new_root = volume.tuning.making.root;
  request.idmap = StagedIdMap(spec, volume);
  return store_.MountOnRecord(StagedUse(spec), [&] { return mounts_.Mount(request); });
}

}  // namespace mooring
