#include "plugin/node/publisher.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/log.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "base/text/terminal_text.h"
#include "mounter/propagation.h"
#include "plugin/model/volume_mount.h"
#include "plugin/node/uses/volume_kind.h"

namespace mooring {
namespace {

// The fields in which a repeated call must agree (CSI 1.12, NodePublishVolume, "the second publish").
std::string AskedFor(const PublishSpec& spec) {
  return (spec.read_only ? "readonly " : "") + ToString(spec.capability);
}

VolumeUse PublishedUse(const PublishSpec& spec, const BindRequest& wanted, const std::string& options) {
  VolumeUse use = NewUse(VolumeUse::Role::kTarget, spec.volume_id, spec.target_path, spec.capability);
  use.read_only = wanted.flags.read_only;
  use.capability = AskedFor(spec);
  use.options = options;
  use.asked_propagation = spec.propagation;
  use.propagation = wanted.propagation;
  return use;
}

// A slave may be without a master.
bool HasPropagation(const ListedMount& info, Propagation propagation) {
  switch (propagation) {
    case Propagation::kInherit:
      return true;
    case Propagation::kPrivate:
      return !info.shared() && info.master == 0;
    case Propagation::kSlave:
      return !info.shared();
    case Propagation::kShared:
      return info.shared();
  }
  return true;
}

absl::Status NotStaged(const PublishSpec& spec, const std::string& detail) {
  return FailedPrecondition("volume {} is not staged at {} ({}): NodeStageVolume comes first", spec.volume_id,
                            Quote(spec.staging_path), detail);
}

absl::Status PublishedOtherwise(const PublishSpec& spec, const std::string& how) {
  return AlreadyExists("volume {} is published at {} in another way ({}); asked for: {}", spec.volume_id,
                       Quote(spec.target_path), WithoutMountFlags(how), WithoutMountFlags(AskedFor(spec)));
}

// Options of a staged filesystem that are not on record, or not asked for, are not compared.
bool HasOtherOptions(const VolumeUse& staged, const PublishSpec& spec) {
  const std::vector<FilesystemOption>& asked = spec.capability.options.options;
  return !staged.adopted() && !asked.empty() && staged.options != ToString(asked);
}

// Whether `use` is another target that forbids this one. CSI 1.12, NodePublishVolume, "the second publish": a
// single-node mode, of either call, allows one target.
bool ForbidsTarget(const VolumeUse& use, const PublishSpec& spec) {
  if (use.role != VolumeUse::Role::kTarget || use.path == spec.target_path || use.path == spec.staging_path)
    return false;
  return !AllowsSecondTarget(spec.capability.mode) || !(use.adopted() || AllowsSecondTarget(use.mode));
}

// The volume's propagation holds if the request names none.
PublishSpec WithPropagationOf(const NodeVolume& volume, PublishSpec spec) {
  if (!spec.propagation) spec.propagation = volume.propagation;
  return spec;
}

}  // namespace

absl::Status Publisher::Publish(const PublishSpec& asked, const NodeVolume& volume) {
  const PublishSpec spec = WithPropagationOf(volume, asked);
  const bool is_block = spec.capability.access_type == AccessType::kBlock;
  MOORING_RETURN_IF_ERROR(CheckSuits(volume, spec.capability));
  MOORING_ASSIGN_OR_RETURN(const bool published, PublishByRecord(spec, volume));
  if (published) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(const PathInfo target, mounter_.Find(spec.target_path));
  if (target.mount) {
    MOORING_RETURN_IF_ERROR(CheckPublishedAlike(spec, volume, target));
    // An earlier version may have published it without a note.
    return is_block ? NoteRawUse(volume, IsReadOnly(spec.capability, spec.read_only)) : absl::OkStatus();
  }
  MOORING_ASSIGN_OR_RETURN(const Plan plan, is_block ? PlanBlock(spec, volume) : PlanFilesystem(spec, volume));
  MOORING_RETURN_IF_ERROR(CheckMayBeShared(spec, plan.bind));
  MOORING_RETURN_IF_ERROR(CheckOtherTargets(spec));
  if (is_block) MOORING_RETURN_IF_ERROR(CheckReadersOrWriters(spec, plan.bind.flags.read_only));
  return store_.MountOnRecord(PublishedUse(spec, plan.bind, plan.options), [&]() -> absl::Status {
    // Before a task can have it, and after all checks: a refused call gives it to nobody.
    if (is_block) MOORING_RETURN_IF_ERROR(NoteRawUse(volume, plan.bind.flags.read_only));
    const absl::Status bound = BindPlanned(spec, volume, plan);
    if (bound.ok() || !is_block) return bound;
    // A read-only device may have been attached for this target.
    devices_.Release(spec.volume_id, spec.target_path).IgnoreError();
    return bound;
  });
}

absl::Status Publisher::NoteRawUse(const NodeVolume& volume, bool read_only) {
  // A volume that was cleared may have grown since.
  const bool is_new = StagingOf(volume) == Staging::kBlockDevice && (!volume.raw || ReusesSpace(volume));
  return is_new ? source_.NoteRawUse(volume.id, read_only) : absl::OkStatus();
}

absl::Status Publisher::PublishAlone(const PublishSpec& asked, const NodeVolume& volume) {
  MOORING_RETURN_IF_ERROR(CheckSuits(volume, asked.capability));
  const PublishSpec spec = WithPropagationOf(volume, asked);
  MOORING_ASSIGN_OR_RETURN(const PathInfo target, mounter_.Find(spec.target_path));
  if (target.mount) return CheckPublishedAlike(spec, volume, target);
  const StageSpec direct = {.volume_id = spec.volume_id,
                            .staging_path = spec.target_path,
                            .capability = spec.capability,
                            .as_target = StageSpec::AsTarget{spec.propagation, PropagationFor(spec)}};
  return stager_.StageMount(direct, volume, target,
                            [&](const PathInfo& there) { return CheckPublishedAlike(spec, volume, there); });
}

// The usual case, in one call to the mounter: the volume is staged as its record says, and nothing is published at the
// target.
absl::StatusOr<bool> Publisher::PublishByRecord(const PublishSpec& spec, const NodeVolume& volume) {
  // A target that is shared must be writable, which depends on the flags of the staged mount.
  if (spec.capability.access_type == AccessType::kBlock || PropagationFor(spec) == Propagation::kShared) return false;
  MOORING_ASSIGN_OR_RETURN(const std::vector<VolumeUse> uses, store_.OfVolume(spec.volume_id));
  const VolumeUse* staged = nullptr;
  for (const VolumeUse& use : uses) {
    if (use.path == spec.staging_path) staged = &use;
    if (use.path == spec.target_path || ForbidsTarget(use, spec)) return false;
  }
  if (staged == nullptr || !staged->done || HasOtherOptions(*staged, spec)) return false;
  ConditionalBind request;
  request.bind = RequestFor(spec, volume);
  request.bind.flags.read_only = request.bind.flags.read_only || staged->read_only;
  request.source = ExpectedMountOf(volume);
  request.source_fs_type = spec.capability.fs_type;
  if (request.bind.group && StagingOf(volume) == Staging::kBlockDevice)
    return false;  // not every filesystem has groups
  VolumeUse use = PublishedUse(spec, request.bind, staged->options);
  use.done = true;
  const absl::StatusOr<bool> published = store_.RecordAndMount(use, [&] { return mounter_.BindIf(request); });
  // UNAVAILABLE: the next helper tells how far this one got. FAILED_PRECONDITION: nothing was mounted. The usual calls
  // look at more, so they name the cause, or find that the volume is published there already.
  const bool unknown = absl::IsUnavailable(published.status()) || absl::IsFailedPrecondition(published.status());
  return unknown ? absl::StatusOr<bool>(false) : published;
}

BindRequest Publisher::RequestFor(const PublishSpec& spec, const NodeVolume& volume) const {
  MountFlags asked = Tuned(spec.capability.options.flags, volume.tuning);
  asked.read_only = IsReadOnly(spec.capability, spec.read_only);
  BindRequest request;
  request.source = spec.staging_path;
  request.target = spec.target_path;
  request.target_kind = TargetKind::kDirectory;
  request.flags = FlagsOfNewMount(asked, spec.capability);
  request.propagation = PropagationFor(spec);
  request.group = spec.capability.mount_group;
  request.idmap = volume.tuning.idmap;
  return request;
}

absl::StatusOr<Publisher::Plan> Publisher::PlanFilesystem(const PublishSpec& spec, const NodeVolume& volume) {
  MOORING_ASSIGN_OR_RETURN(const PathInfo staged, mounter_.Find(spec.staging_path));
  if (!staged.mount || staged.kind != PathInfo::Kind::kDirectory) return NotStaged(spec, "nothing is mounted there");
  if (!IsMountOf(volume, staged)) {
    const std::string owner = finder_.Owner(staged);
    return NotStaged(spec, owner.empty() ? "another mount is there" : "volume " + owner + " is there");
  }
  if (!staged.failure.empty()) {
    return FailedPrecondition(
        "volume {} is staged at {}, where its filesystem does not answer any more ({}): unpublish and unstage it",
        spec.volume_id, Quote(spec.staging_path), staged.failure);
  }
  if (!spec.capability.fs_type.empty() && spec.capability.fs_type != staged.mount->fs_type) {
    return FailedPrecondition("volume {} is staged as {}, {} is asked for", spec.volume_id, staged.mount->fs_type,
                              spec.capability.fs_type);
  }
  MOORING_RETURN_IF_ERROR(CheckOwnerSuits(volume, spec.capability, staged.mount->fs_type));
  MOORING_ASSIGN_OR_RETURN(const std::optional<VolumeUse> known, store_.Get(spec.staging_path));
  if (known && HasOtherOptions(*known, spec)) {
    return FailedPrecondition(
        "volume {} is staged with other filesystem options than are asked for: stage it with them", spec.volume_id);
  }
  BindRequest request = RequestFor(spec, volume);
  request.flags = Stricter(staged.mount->flags, request.flags);
  return Plan{request, known ? known->options : ToString(spec.capability.options.options)};
}

// The device of the volume. The volume is staged if a record says so. If the records were lost, it is staged if its
// loop device is held. A task may keep a device open that an unstage has let go.
absl::StatusOr<std::string> Publisher::StagedDevice(const PublishSpec& spec, const NodeVolume& volume,
                                                    const std::optional<VolumeUse>& staged) {
  if (StagingOf(volume) == Staging::kBlockDevice) {
    if (staged && IsClosed(volume)) return NotStaged(spec, "another program has removed its mapping");
    return staged ? absl::StatusOr<std::string>(volume.path) : NotStaged(spec, "no record says so");
  }
  if (staged && !staged->device.empty()) {
    MOORING_ASSIGN_OR_RETURN(const PathInfo device, mounter_.Find(staged->device));
    const bool is_ours = device.loop && (device.loop->label == LabelFor(spec.volume_id) ||
                                         (device.loop->raw && device.loop->label.empty()));
    if (is_ours) {
      MOORING_RETURN_IF_ERROR(devices_.HoldAgain(volume, *device.loop));
      return device.loop->device;
    }
  }
  MOORING_ASSIGN_OR_RETURN(const std::vector<VolumeUse> uses, store_.OfVolume(spec.volume_id));
  const bool on_record = std::any_of(uses.begin(), uses.end(), [](const VolumeUse& use) {
    return use.role == VolumeUse::Role::kStage && use.access_type == AccessType::kBlock;
  });
  if (on_record && !staged) return NotStaged(spec, "it is staged elsewhere");
  MOORING_ASSIGN_OR_RETURN(const std::vector<LoopInfo> loops, mounter_.FindLoops(volume.path));
  for (const LoopInfo& loop : loops) {
    if (!loop.raw || loop.label != LabelFor(spec.volume_id)) continue;
    MOORING_RETURN_IF_ERROR(devices_.HoldAgain(volume, loop));
    return loop.device;
  }
  const bool lets_go = !loops.empty() && loops.front().raw && loops.front().label.empty();
  if (loops.empty() || lets_go) return NotStaged(spec, "it has no device");
  return NotStaged(spec, loops.front().auto_clear ? "it is in use as a filesystem" : "its image is in use otherwise");
}

absl::StatusOr<Publisher::Plan> Publisher::PlanBlock(const PublishSpec& spec, const NodeVolume& volume) {
  MOORING_ASSIGN_OR_RETURN(std::optional<VolumeUse> staged, store_.Get(spec.staging_path));
  const bool is_block = staged && staged->volume_id == spec.volume_id && staged->access_type == AccessType::kBlock;
  if (!is_block) staged.reset();
  MOORING_ASSIGN_OR_RETURN(const std::string device, StagedDevice(spec, volume, staged));
  BindRequest request;
  request.source = device;
  request.target = spec.target_path;
  request.target_kind = TargetKind::kFile;
  request.flags.read_only = IsReadOnly(spec.capability, spec.read_only) || (staged && staged->read_only);
  request.propagation = PropagationFor(spec);
  return Plan{request, ""};
}

// It is checked for new mounts only, so a changed default does not affect existing targets.
absl::Status Publisher::CheckMayBeShared(const PublishSpec& spec, const BindRequest& bind) const {
  if (bind.propagation != Propagation::kShared || !bind.flags.read_only) return absl::OkStatus();
  const std::string what =
      fmt::format("propagation rshared{} needs write access, and {} ",
                  spec.propagation ? "" : " (the default, --propagation)", Quote(spec.target_path));
  constexpr std::string_view kAdvice = "ask for rslave or private, or for a target that can be written";
  if (IsReadOnly(spec.capability, spec.read_only)) return InvalidArgument("{}is to be read-only: {}", what, kAdvice);
  return FailedPrecondition("{}would be read-only, as the volume is staged: {}", what, kAdvice);
}

// The kernel has a cache for the writable device and one for each read-only device (VolumeDevices).
absl::Status Publisher::CheckReadersOrWriters(const PublishSpec& spec, bool read_only) {
  const auto conflicts = [&](const VolumeUse& use) {
    return use.role == VolumeUse::Role::kTarget && use.access_type == AccessType::kBlock &&
           use.path != spec.target_path && use.read_only != read_only;
  };
  MOORING_ASSIGN_OR_RETURN(const std::optional<VolumeUse> other, finder_.FindLive(spec.volume_id, conflicts));
  if (!other) return absl::OkStatus();
  return FailedPrecondition(
      "volume {} is published {} at {}, so it cannot be published {} at {}: a reader of a block volume would see old "
      "data beside a writer. Unpublish it there first, publish both alike, or use a filesystem",
      spec.volume_id, read_only ? "writable" : "read-only", Quote(other->path), read_only ? "read-only" : "writable",
      Quote(spec.target_path));
}

absl::Status Publisher::CheckOtherTargets(const PublishSpec& spec) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<VolumeUse> uses, store_.OfVolume(spec.volume_id));
  const bool allows = AllowsSecondTarget(spec.capability.mode);
  for (const VolumeUse& use : uses) {
    if (!ForbidsTarget(use, spec)) continue;
    MOORING_ASSIGN_OR_RETURN(const bool live, finder_.IsLive(use));
    if (!live) {
      MOORING_RETURN_IF_ERROR(store_.Delete(use.path));
      continue;
    }
    return FailedPrecondition(
        "volume {} is published at {} already, and {} allows one target on a node. If the task there is gone, free the "
        "volume, where the plugin runs: mooring csi unpublish {} --target-path {}",
        spec.volume_id, Quote(use.path), ToString(allows ? use.mode : spec.capability.mode), spec.volume_id,
        ShellQuote(use.path));
  }
  return absl::OkStatus();
}

// From its hold on, a device keeps its number. Before that, another program may have deactivated a logical volume, and
// the number may be another one's by now.
absl::Status Publisher::CheckSameDevice(const NodeVolume& volume) {
  if (StagingOf(volume) != Staging::kBlockDevice) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(const NodeVolume now, source_.Find(volume.id));
  if (now.device == volume.device && now.path == volume.path) return absl::OkStatus();
  return Aborted("the device of volume {} was {} and is {} by now: call again", volume.id, volume.path, now.path);
}

absl::Status Publisher::BindPlanned(const PublishSpec& spec, const NodeVolume& volume, const Plan& plan) {
  if (spec.capability.access_type == AccessType::kMount) return mounter_.Bind(plan.bind);
  if (!plan.bind.flags.read_only) {
    MOORING_RETURN_IF_ERROR(devices_.Hold(volume));
    MOORING_RETURN_IF_ERROR(CheckSameDevice(volume));
    return mounter_.Bind(plan.bind);
  }
  MOORING_ASSIGN_OR_RETURN(const LoopInfo stacked, devices_.AttachReadOnly(volume, plan.bind.source));
  if (const absl::Status same = CheckSameDevice(volume); !same.ok()) {
    log::WarningIfFailed(devices_.Release(volume.id, spec.target_path), "a device of another volume stays attached",
                         {{"device", stacked.device}});
    return same;
  }
  BindRequest bind = plan.bind;
  bind.source = stacked.device;
  return mounter_.Bind(bind);
}

// Accepts the mount at the target if it is the requested one.
absl::Status Publisher::CheckPublishedAlike(const PublishSpec& spec, const NodeVolume& volume, const PathInfo& target) {
  if (!IsMountOf(volume, target)) {
    return FailedPrecondition("target path {} is a mount of {} already: nothing is stacked on it",
                              Quote(spec.target_path), finder_.OwnerText(target));
  }
  if (!target.failure.empty()) {
    return FailedPrecondition(
        "volume {} is published at {}, where its filesystem does not answer any more ({}): unpublish and unstage it",
        spec.volume_id, Quote(spec.target_path), target.failure);
  }
  MOORING_ASSIGN_OR_RETURN(const std::optional<VolumeUse> known, store_.Get(spec.target_path));
  if (known && !known->adopted() && known->role != VolumeUse::Role::kTarget) {
    return FailedPrecondition("volume {} is staged at {}: publish it at another path", spec.volume_id,
                              Quote(spec.target_path));
  }
  MOORING_RETURN_IF_ERROR(CheckIdsMapped(spec, volume));
  if (!known || known->adopted()) return AdoptTarget(spec, volume, target);
  const MountFlags& now = target.mount->flags;
  // A change of the noatime setting may not have reached the mount yet.
  MountFlags asked = Tuned(spec.capability.options.flags, volume.tuning);
  if (now.atime == Atime::kNoatime || volume.tuning.noatime) asked.atime = now.atime;
  const bool intact =
      now.read_only == known->read_only && (known->access_type == AccessType::kBlock || Stricter(now, asked) == now);
  if (!IsAskedAgain(known->capability, AskedFor(spec))) return PublishedOtherwise(spec, known->capability);
  // If neither call named a propagation, the default at the time of the mount holds.
  const Propagation before = known->asked_propagation.value_or(known->propagation);
  if (known->asked_propagation != spec.propagation && before != PropagationFor(spec)) {
    return AlreadyExists("volume {} is published at {} with propagation {}; asked for: {}. Unpublish it there first",
                         spec.volume_id, Quote(spec.target_path), ToString(before), ToString(PropagationFor(spec)));
  }
  if (!intact) {
    return PublishedOtherwise(
        spec, known->done ? "its mount has been changed since" : "the call that mounted it was cut short");
  }
  MOORING_RETURN_IF_ERROR(SetPropagationAgain(spec, known->propagation));
  if (!known->done) {  // an earlier call was killed after the mount, or could not write its record
    VolumeUse use = *known;
    use.done = true;
    store_.PutDone(use);
  }
  return absl::OkStatus();
}

// The call that mounted it may have been cut short before it set the propagation. A restarted plugin in a container
// sees the host's copy of the mount, which may have another. Setting it costs less than asking: before Linux 6.8 only
// the mount table tells.
absl::Status Publisher::SetPropagationAgain(const PublishSpec& spec, Propagation propagation) {
  if (propagation == Propagation::kInherit) return absl::OkStatus();
  return mounter_.Change({.target = spec.target_path, .propagation = propagation});
}

// Somebody else may have mounted the volume there, and the task's files would get other owners.
absl::Status Publisher::CheckIdsMapped(const PublishSpec& spec, const NodeVolume& volume) {
  if (volume.tuning.idmap.empty() || spec.capability.access_type == AccessType::kBlock) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(const bool mapped, finder_.HasMappedIds(spec.target_path));
  return mapped ? absl::OkStatus() : PublishedOtherwise(spec, "without its idmap");
}

absl::Status Publisher::CheckPropagation(const PublishSpec& spec, Propagation propagation) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<ListedMount> mounts, mounter_.List(spec.target_path));
  const auto top = std::find_if(mounts.rbegin(), mounts.rend(),
                                [&](const ListedMount& mount) { return mount.target == spec.target_path; });
  if (top != mounts.rend() && HasPropagation(*top, propagation)) return absl::OkStatus();
  return PublishedOtherwise(spec, fmt::format("not with propagation {}", ToString(propagation)));
}

absl::Status Publisher::AdoptTarget(const PublishSpec& spec, const NodeVolume& volume, const PathInfo& target) {
  const bool is_block = target.kind == PathInfo::Kind::kBlockDevice;
  const std::string how = is_block ? "block" : "mount " + target.mount->fs_type;
  if (is_block != (spec.capability.access_type == AccessType::kBlock)) return PublishedOtherwise(spec, how);
  Plan plan;
  plan.bind.flags.read_only = IsReadOnly(spec.capability, spec.read_only);
  if (!is_block) {
    if (spec.staging_path.empty()) {
      plan.bind.flags = Tuned(spec.capability.options.flags, volume.tuning);
      plan.options = ToString(spec.capability.options.options);
    } else {
      MOORING_ASSIGN_OR_RETURN(plan, PlanFilesystem(spec, volume));
    }
  }
  const bool alike =
      is_block ? target.mount->flags.read_only == plan.bind.flags.read_only : target.mount->flags == plan.bind.flags;
  if (!alike) return PublishedOtherwise(spec, how + (target.mount->flags.read_only ? ", read-only" : ""));
  if (spec.propagation) MOORING_RETURN_IF_ERROR(CheckPropagation(spec, *spec.propagation));
  plan.bind.propagation = spec.propagation.value_or(Propagation::kInherit);
  VolumeUse use = PublishedUse(spec, plan.bind, plan.options);
  use.done = true;
  store_.PutDone(use);
  return absl::OkStatus();
}

}  // namespace mooring
