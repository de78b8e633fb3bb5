#include "plugin/node/uses/volume_devices.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/file/path.h"
#include "base/log.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/loop/settle.h"
#include "plugin/backends/registry.h"
#include "plugin/model/volume_mount.h"
#include "plugin/node/uses/volume_kind.h"

namespace mooring {
namespace {

// A read-only bind, or a copy of one, may have any path. Its root has the name of the node.
std::set<std::string> NamesOfRoots(const std::vector<ListedMount>& mounts) {
  std::set<std::string> names;
  for (const MountInfo& info : mounts) names.insert(std::string(NameOf(info.root)));
  return names;
}

absl::Status OkIfMissing(const absl::Status& status) { return absl::IsNotFound(status) ? absl::OkStatus() : status; }

const KnownDevice* DeviceOf(const std::string& volume_id, const std::vector<KnownDevice>& devices) {
  const auto found = std::find_if(devices.begin(), devices.end(),
                                  [&](const KnownDevice& known) { return known.volume_id == volume_id; });
  return found != devices.end() ? &*found : nullptr;
}

// The disk or logical volume.
const KnownDevice* PlainDevice(const std::string& volume_id, const std::vector<KnownDevice>& devices) {
  const KnownDevice* const device = DeviceOf(volume_id, devices);
  return device != nullptr && !device->is_mapping ? device : nullptr;
}

bool IsWritableTarget(const VolumeUse& use) {
  return use.access_type == AccessType::kBlock && use.role == VolumeUse::Role::kTarget && !use.read_only;
}

}  // namespace

bool GoesByItself(const LoopInfo& loop) { return !loop.raw && loop.auto_clear; }

const KnownDevice* MappingOf(const std::string& volume_id, const std::vector<LoopInfo>& loops,
                             const std::vector<KnownDevice>& devices) {
  const bool has_carrier = std::any_of(loops.begin(), loops.end(), [&](const LoopInfo& loop) {
    return GoesByItself(loop) && OwnerOf(loop) == volume_id;
  });
  return has_carrier ? DeviceOf(volume_id, devices) : nullptr;
}

// An image has the name of its volume, and the label of a stacked device is the device below it.
absl::Status CheckNoneHangs(const std::string& volume_id, const std::vector<LoopInfo>& loops) {
  const auto is_over = [&](const LoopInfo& loop) {
    if (NameOf(loop.label).starts_with(volume_id)) return true;
    return std::any_of(loops.begin(), loops.end(),
                       [&](const LoopInfo& own) { return own.device == loop.label && OwnerOf(own) == volume_id; });
  };
  for (const LoopInfo& loop : loops) {
    if (!loop.hangs() || !is_over(loop)) continue;
    return absl::DeadlineExceededError(
        fmt::format("{} over {}: no answer: what serves that file hangs; end or mend that, and call again", loop.device,
                    Quote(loop.label)));
  }
  return absl::OkStatus();
}

void WarnIfNotHeld(const std::string& volume_id, const absl::Status& held) {
  log::WarningIfFailed(
      held, "a device of a block volume is not held open: do not detach or deactivate it, not even with losetup -D",
      {{"volume", volume_id}});
}

absl::StatusOr<LoopInfo> VolumeDevices::Attach(const NodeVolume& volume) {
  return mounter_.AttachLoop({.backing_file = volume.path, .label = LabelFor(volume.id)});
}

absl::StatusOr<LoopInfo> VolumeDevices::AttachReadOnly(const NodeVolume& volume, const std::string& device) {
  const AttachLoopRequest request = {.backing_file = device, .label = ReadOnlyLabelFor(volume.id), .read_only = true};
  MOORING_ASSIGN_OR_RETURN(LoopInfo loop, mounter_.AttachLoop(request));
  if (volume.tuning.read_ahead_bytes != 0) MOORING_RETURN_IF_ERROR(Tune(volume, loop));
  return loop;
}

absl::Status VolumeDevices::HoldAgain(const NodeVolume& volume, const LoopInfo& loop) {
  const bool as_attached = !loop.auto_clear && !loop.label.empty() && loop.offset == 0 && loop.size_limit == 0;
  if (as_attached && loop.raw) return absl::OkStatus();
  const auto is_it = [&](const LoopInfo& other) { return other.device_number == loop.device_number; };
  const absl::StatusOr<std::vector<LoopInfo>> over = mounter_.FindLoops(volume.path);
  if (!over.ok()) return Unexpected(over.status());
  if (std::none_of(over->begin(), over->end(), is_it)) {
    return FailedPrecondition(
        "{} of volume {} does not read {}, which was replaced while the volume was in use: unpublish, unstage and "
        "stage it",
        loop.device, volume.id, Quote(volume.path));
  }
  const absl::StatusOr<LoopInfo> now = Attach(volume);
  if (!now.ok()) return Unexpected(now.status());
  if (is_it(*now)) return absl::OkStatus();
  return FailedPrecondition("the device of volume {} is {} and not {} any more: unpublish, unstage and stage it",
                            volume.id, now->device, loop.device);
}

// The volume's own device comes first. A device whose hold is gone does not tell its volume, but its file does.
absl::StatusOr<std::vector<LoopInfo>> VolumeDevices::DevicesOf(const std::string& volume_id,
                                                               std::vector<LoopInfo> loops) {
  const auto is_lost = [](const LoopInfo& loop) { return loop.raw && loop.label.empty(); };
  if (std::any_of(loops.begin(), loops.end(), is_lost)) {
    MOORING_ASSIGN_OR_RETURN(const std::set<dev_t> own, OwnDevicesOf(volume_id));
    for (LoopInfo& loop : loops) {
      const bool reads = own.contains(loop.backing_rdev);
      if (!is_lost(loop) || (!reads && !own.contains(loop.device_number))) continue;
      loop.label = reads ? ReadOnlyLabelFor(volume_id) : LabelFor(volume_id);
      const absl::Status held = mounter_.HoldLoop(loop);
      if (!held.ok() && !absl::IsAborted(held)) return held;
      if (!held.ok()) loop.label.clear();  // a call before detached it, and its last user has gone just now
    }
  }
  std::erase_if(loops, [&](const LoopInfo& loop) { return OwnerOf(loop) != volume_id; });
  std::stable_partition(loops.begin(), loops.end(),
                        [&](const LoopInfo& loop) { return loop.label == LabelFor(volume_id); });
  return loops;
}

absl::StatusOr<std::set<dev_t>> VolumeDevices::OwnDevicesOf(const std::string& volume_id) {
  std::set<dev_t> own;
  const absl::StatusOr<NodeVolume> volume = source_.Find(volume_id);
  if (!volume.ok()) return own;
  if (volume->device != 0) own.insert(volume->device);
  if (StagingOf(*volume) != Staging::kLoopDevice) return own;
  MOORING_ASSIGN_OR_RETURN(const std::vector<LoopInfo> over, mounter_.FindLoops(volume->path));
  for (const LoopInfo& loop : over) {
    if (loop.raw) own.insert(loop.device_number);
  }
  return own;
}

absl::Status VolumeDevices::Hold(const NodeVolume& volume) {
  return StagingOf(volume) == Staging::kBlockDevice ? mounter_.HoldDevice(volume.path) : absl::OkStatus();
}

absl::Status VolumeDevices::HoldAll(const std::string& volume_id, const std::vector<LoopInfo>& loops) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<LoopInfo> devices, DevicesOf(volume_id, loops));
  absl::Status held;
  for (const LoopInfo& loop : devices) {
    if (!GoesByItself(loop)) held.Update(mounter_.HoldLoop(loop));
  }
  MOORING_ASSIGN_OR_RETURN(const std::vector<VolumeUse> uses, store_.OfVolume(volume_id));
  if (std::none_of(uses.begin(), uses.end(), IsWritableTarget)) return held;
  const absl::StatusOr<NodeVolume> volume = source_.Find(volume_id);
  if (volume.ok() && volume->device != 0) held.Update(OkIfMissing(Hold(*volume)));
  return held;
}

absl::Status VolumeDevices::Flush(const std::string& volume_id) {
  const absl::StatusOr<NodeVolume> volume = source_.Find(volume_id);
  if (volume.ok() && IsClosed(*volume)) return absl::OkStatus();
  if (volume.ok() && StagingOf(*volume) == Staging::kBlockDevice) {
    const absl::Status flushed = mounter_.Flush(volume->path);
    return volume->carrier.empty() ? flushed : OkIfMissing(flushed);
  }
  MOORING_ASSIGN_OR_RETURN(const std::vector<LoopInfo> loops, FindAnswering(volume_id));
  MOORING_ASSIGN_OR_RETURN(const std::vector<LoopInfo> devices, DevicesOf(volume_id, loops));
  for (const LoopInfo& loop : devices) {
    if (!loop.read_only) MOORING_RETURN_IF_ERROR(mounter_.Flush(loop.device));
  }
  return absl::OkStatus();
}

// A hanging device may still be in use, and can be neither resized nor tuned.
absl::StatusOr<std::vector<LoopInfo>> VolumeDevices::FindAnswering(const std::string& volume_id) {
  MOORING_ASSIGN_OR_RETURN(std::vector<LoopInfo> loops, mounter_.FindLoops(""));
  MOORING_RETURN_IF_ERROR(CheckNoneHangs(volume_id, loops));
  return loops;
}

// The kernel is asked for mounts, because records may be lost, and kubelet binds block targets again for its pods.
absl::Status VolumeDevices::ReleaseAll(const std::string& volume_id, const std::string& gone, RawData raw_data) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<VolumeUse> uses, store_.OfVolume(volume_id));
  MOORING_ASSIGN_OR_RETURN(std::vector<LoopInfo> loops, FindAnswering(volume_id));
  const std::vector<KnownDevice> devices = source_.KnownDevices();
  const KnownDevice* const mapping = MappingOf(volume_id, loops, devices);
  const KnownDevice* const device = mapping != nullptr ? mapping : PlainDevice(volume_id, devices);
  const bool needed = std::any_of(uses.begin(), uses.end(), [&](const VolumeUse& use) {
    return use.access_type == AccessType::kBlock && use.path != gone &&
           (use.role == VolumeUse::Role::kStage || !use.done || (device != nullptr && !use.adopted()));
  });
  MOORING_ASSIGN_OR_RETURN(loops, DevicesOf(volume_id, std::move(loops)));
  // As losetup -D leaves it, the device of an image may stay without a user: then it is detached.
  std::erase_if(loops,
                [&](const LoopInfo& loop) { return GoesByItself(loop) && (loop.mounted || mapping != nullptr); });
  const bool has_readers = std::any_of(loops.begin(), loops.end(), [](const LoopInfo& loop) { return loop.read_only; });
  if ((loops.empty() && device == nullptr) || (needed && !has_readers)) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(const std::vector<ListedMount> mounts, mounter_.List("/"));
  MOORING_RETURN_IF_ERROR(DeleteStaleAdopted(uses, mounts));
  const std::set<std::string> bound = NamesOfRoots(mounts);
  MOORING_ASSIGN_OR_RETURN(const bool in_use, DetachUnbound(loops, bound, needed));
  if (device == nullptr || in_use || bound.contains(std::string(NameOf(device->node)))) return absl::OkStatus();
  return mapping != nullptr ? CloseMapping(*mapping, mounts, raw_data) : LetGo(*device);
}

// A task may have written after an earlier flush. Without a holder, the kernel would drop what it cannot write. Nothing
// can be written to a disk that was removed.
absl::Status VolumeDevices::LetGo(const KnownDevice& device) {
  MOORING_ASSIGN_OR_RETURN(const PathInfo now, mounter_.Find(device.node));
  if (now.kind != PathInfo::Kind::kBlockDevice || now.device != device.number) return absl::OkStatus();
  MOORING_RETURN_IF_ERROR(OkIfMissing(mounter_.Flush(device.node)));
  return OkIfMissing(mounter_.ReleaseDevice(device.node));
}

absl::Status VolumeDevices::ReleaseMapping(const std::string& volume_id) {
  const auto ask = [&] { return source_.Find(volume_id); };
  const auto is_open = [](const NodeVolume& volume) { return !volume.carrier.empty() && volume.device != 0; };
  const absl::StatusOr<NodeVolume> volume = AskUntilSettled(ask, is_open);
  return volume.ok() && is_open(*volume) ? ReleaseAll(volume_id, "", RawData::kNone) : absl::OkStatus();
}

// The read-only devices go first, because they hold the other. The next publish that needs it attaches it again.
// Returns whether something needs the volume's own device.
absl::StatusOr<bool> VolumeDevices::DetachUnbound(const std::vector<LoopInfo>& loops,
                                                  const std::set<std::string>& bound, bool needed) {
  bool in_use = needed;
  for (auto loop = loops.rbegin(); loop != loops.rend(); ++loop) {
    if (bound.contains(std::string(NameOf(loop->device)))) {
      in_use = true;
    } else if (loop->read_only || !in_use) {
      MOORING_RETURN_IF_ERROR(mounter_.DetachLoop(*loop));
    }
  }
  return in_use;
}

// Tasks write to no device that has a mounted filesystem.
absl::Status VolumeDevices::CloseMapping(const KnownDevice& mapping, const std::vector<ListedMount>& mounts,
                                         RawData raw_data) {
  const bool is_mounted =
      std::any_of(mounts.begin(), mounts.end(), [&](const MountInfo& info) { return info.device == mapping.number; });
  if (!is_mounted && raw_data == RawData::kPerhaps) MOORING_RETURN_IF_ERROR(OkIfMissing(mounter_.Flush(mapping.node)));
  return mounter_.CloseEncrypted(mapping.volume_id);
}

// Deletes records of adopted mounts that do not exist any more.
absl::Status VolumeDevices::DeleteStaleAdopted(const std::vector<VolumeUse>& uses,
                                               const std::vector<ListedMount>& mounts) {
  for (const VolumeUse& use : uses) {
    const bool there =
        std::any_of(mounts.begin(), mounts.end(), [&](const MountInfo& info) { return info.target == use.path; });
    if (use.adopted() && !there) MOORING_RETURN_IF_ERROR(store_.DeleteEnded(use.path));
  }
  return absl::OkStatus();
}

// Each device grows after the one below it: the volume's own device, the mapping, the read-only devices.
absl::Status VolumeDevices::Resize(const NodeVolume& volume) {
  MOORING_ASSIGN_OR_RETURN(std::vector<LoopInfo> loops, FindAnswering(volume.id));
  MOORING_ASSIGN_OR_RETURN(loops, DevicesOf(volume.id, std::move(loops)));
  const auto readers = std::partition_point(
      loops.begin(), loops.end(), [label = LabelFor(volume.id)](const LoopInfo& loop) { return loop.label == label; });
  for (auto loop = loops.begin(); loop != readers; ++loop) MOORING_RETURN_IF_ERROR(mounter_.ResizeLoop(*loop));
  if (!volume.carrier.empty() && !IsClosed(volume)) {
    MOORING_RETURN_IF_ERROR(Unexpected(mounter_.ResizeEncrypted(volume.id)));
  }
  for (auto loop = readers; loop != loops.end(); ++loop) MOORING_RETURN_IF_ERROR(mounter_.ResizeLoop(*loop));
  return absl::OkStatus();
}

absl::Status VolumeDevices::Tune(const NodeVolume& volume, const LoopInfo& loop) {
  const absl::Status tuned = mounter_.TuneLoop(loop, {.read_ahead_bytes = volume.tuning.read_ahead_bytes});
  return absl::IsNotFound(tuned) ? absl::OkStatus() : tuned;  // it was unmounted meanwhile
}

absl::Status VolumeDevices::TuneAll(const NodeVolume& volume) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<LoopInfo> loops, FindAnswering(volume.id));
  for (const LoopInfo& loop : loops) {
    if (OwnerOf(loop) == volume.id) MOORING_RETURN_IF_ERROR(Tune(volume, loop));
  }
  return absl::OkStatus();
}

absl::Status VolumeTuner::TuneMount(const NodeVolume& volume, const VolumeUse& use) {
  MOORING_ASSIGN_OR_RETURN(const PathInfo place, mounts_.Find(use.path));
  if (!place.mount || finder_.Owner(place) != volume.id || !place.failure.empty()) return absl::OkStatus();
  MountFlags flags = place.mount->flags;
  flags.atime = AtimeIn(use.capability);
  flags = Tuned(flags, volume.tuning);
  if (flags == place.mount->flags) return absl::OkStatus();
  return mounts_.Change({.target = use.path, .flags = flags});
}

absl::Status VolumeTuner::Tune(const NodeVolume& volume) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<VolumeUse> uses, store_.OfVolume(volume.id));
  for (const VolumeUse& use : uses) {
    if (use.access_type == AccessType::kMount) MOORING_RETURN_IF_ERROR(TuneMount(volume, use));
  }
  return TraitsOf(volume.kind).tunes ? devices_.TuneAll(volume) : absl::OkStatus();
}

}  // namespace mooring
