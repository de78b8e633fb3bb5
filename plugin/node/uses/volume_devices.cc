#include "plugin/node/uses/volume_devices.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/file/path.h"
#include "base/log.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "plugin/model/volume_mount.h"

namespace mooring {

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
  log::WarningIfFailed(held,
                       "the loop device of a block volume is not held open: do not detach it, not even with losetup -D",
                       {{"volume", volume_id}});
}

absl::StatusOr<LoopInfo> VolumeDevices::Attach(const NodeVolume& volume) {
  return mounter_.AttachLoop({.backing_file = volume.path, .label = LabelFor(volume.id), .held = true});
}

absl::StatusOr<LoopInfo> VolumeDevices::AttachReadOnly(const NodeVolume& volume, const std::string& device) {
  MOORING_ASSIGN_OR_RETURN(const BlockTargets targets, BlockTargetsOf(volume.id));
  MOORING_ASSIGN_OR_RETURN(
      LoopInfo stacked,
      mounter_.AttachLoop(
          {.backing_file = device, .label = ReadOnlyLabelFor(volume.id), .read_only = true, .held = !targets.writers}));
  if (volume.tuning.read_ahead_bytes != 0) MOORING_RETURN_IF_ERROR(Tune(volume, stacked));
  return stacked;
}

absl::Status VolumeDevices::HoldAgain(const NodeVolume& volume, const LoopInfo& loop) {
  if (!loop.auto_clear) return absl::OkStatus();
  return Unexpected(
      mounter_.AttachLoop({.backing_file = volume.path, .label = loop.label, .read_only = loop.read_only, .held = true})
          .status());
}

absl::StatusOr<VolumeDevices::BlockTargets> VolumeDevices::BlockTargetsOf(const std::string& volume_id,
                                                                          const std::string& gone) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<VolumeUse> uses, store_.OfVolume(volume_id));
  BlockTargets targets;
  for (const VolumeUse& use : uses) {
    if (use.role != VolumeUse::Role::kTarget || use.access_type != AccessType::kBlock || use.path == gone) continue;
    (use.read_only ? targets.readers : targets.writers) = true;
  }
  return targets;
}

// A process holds the read-only device open while no target can write. An open device keeps its page cache, so beside a
// writable target a later reader would see old data.
absl::Status VolumeDevices::HoldReadOnly(const std::string& volume_id, const std::string& gone) {
  MOORING_ASSIGN_OR_RETURN(const BlockTargets targets, BlockTargetsOf(volume_id, gone));
  if (!targets.readers) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(const std::vector<LoopInfo> loops, mounter_.FindLoops(""));
  for (const LoopInfo& stacked : loops) {
    if (stacked.label != ReadOnlyLabelFor(volume_id)) continue;
    const auto below = std::find_if(loops.begin(), loops.end(), [&stacked](const LoopInfo& loop) {
      return loop.device_number == stacked.backing_rdev;
    });
    std::string device = below == loops.end() ? "" : below->device;
    if (device.empty()) {  // Staging::kBlockDevice
      MOORING_ASSIGN_OR_RETURN(const NodeVolume volume, source_.Find(volume_id));
      device = volume.path;
    }
    const AttachLoopRequest request = {
        .backing_file = device, .label = stacked.label, .read_only = true, .held = !targets.writers};
    MOORING_RETURN_IF_ERROR(Unexpected(mounter_.AttachLoop(request).status()));
  }
  return absl::OkStatus();
}

absl::Status VolumeDevices::HoldAll(const std::string& volume_id, const std::vector<LoopInfo>& loops) {
  for (const LoopInfo& loop : loops) {
    if (loop.label != LabelFor(volume_id) || loop.mounted) continue;
    MOORING_ASSIGN_OR_RETURN(const NodeVolume volume, source_.Find(volume_id));
    MOORING_RETURN_IF_ERROR(Attach(volume).status());
  }
  return HoldReadOnly(volume_id);
}

// A hanging device may still be in use, and can be neither resized nor tuned.
absl::StatusOr<std::vector<LoopInfo>> VolumeDevices::FindAnswering(const std::string& volume_id) {
  MOORING_ASSIGN_OR_RETURN(std::vector<LoopInfo> loops, mounter_.FindLoops(""));
  MOORING_RETURN_IF_ERROR(CheckNoneHangs(volume_id, loops));
  return loops;
}

// The kernel is asked for mounts, because records may be lost, and kubelet binds block targets again for its pods.
absl::Status VolumeDevices::Release(const std::string& volume_id, const std::string& gone) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<VolumeUse> uses, store_.OfVolume(volume_id));
  const bool needed = std::any_of(uses.begin(), uses.end(), [&](const VolumeUse& use) {
    return use.access_type == AccessType::kBlock && use.path != gone &&
           (use.role == VolumeUse::Role::kStage || !use.done);
  });
  MOORING_ASSIGN_OR_RETURN(std::vector<LoopInfo> loops, FindAnswering(volume_id));
  std::erase_if(loops,
                [&](const LoopInfo& loop) { return OwnerOf(loop) != volume_id || (loop.auto_clear && loop.mounted); });
  const bool stacked = std::any_of(loops.begin(), loops.end(),
                                   [&](const LoopInfo& loop) { return loop.label == ReadOnlyLabelFor(volume_id); });
  if (loops.empty() || (needed && !stacked)) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(const std::vector<ListedMount> mounts, mounter_.List("/"));
  MOORING_RETURN_IF_ERROR(DeleteStaleAdopted(uses, mounts));
  return DetachUnbound(volume_id, loops, mounts, needed);
}

// The stacked device goes first, because it holds the other. The next publish that needs it attaches it again.
absl::Status VolumeDevices::DetachUnbound(const std::string& volume_id, const std::vector<LoopInfo>& loops,
                                          const std::vector<ListedMount>& mounts, bool needed) {
  std::set<std::string> bound;
  for (const MountInfo& info : mounts) bound.insert(std::string(NameOf(info.root)));
  for (const std::string& label : {ReadOnlyLabelFor(volume_id), LabelFor(volume_id)}) {
    for (const LoopInfo& loop : loops) {
      if (loop.label != label) continue;
      if (bound.contains(std::string(NameOf(loop.device)))) return absl::OkStatus();
      if (needed && label == LabelFor(volume_id)) return absl::OkStatus();
      MOORING_RETURN_IF_ERROR(mounter_.DetachLoop(loop));
    }
  }
  return absl::OkStatus();
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

// The volume's own device grows before the device on top of it.
absl::Status VolumeDevices::Resize(const std::string& volume_id) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<LoopInfo> loops, FindAnswering(volume_id));
  for (const std::string& label : {LabelFor(volume_id), ReadOnlyLabelFor(volume_id)}) {
    for (const LoopInfo& loop : loops) {
      if (loop.label == label) MOORING_RETURN_IF_ERROR(mounter_.ResizeLoop(loop));
    }
  }
  return absl::OkStatus();
}

absl::Status VolumeDevices::Tune(const NodeVolume& volume, const LoopInfo& loop) {
  const absl::Status tuned = mounter_.TuneLoop(loop, {.read_ahead_bytes = volume.tuning.read_ahead_bytes});
  return absl::IsFailedPrecondition(tuned) ? absl::OkStatus() : tuned;  // it was unmounted meanwhile
}

absl::Status VolumeDevices::TuneAll(const NodeVolume& volume) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<LoopInfo> loops, FindAnswering(volume.id));
  for (const LoopInfo& loop : loops) {
    if (OwnerOf(loop) == volume.id) MOORING_RETURN_IF_ERROR(Tune(volume, loop));
  }
  return absl::OkStatus();
}

}  // namespace mooring
