#include "plugin/node/node_volumes.h"

#include <fmt/format.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "base/file/path.h"
#include "base/log.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "plugin/model/volume_id.h"

namespace mooring {
namespace {

// Of the mounts at and below a path, the one that `info` is mounted on. Parents come before children, and of a stack
// the lower before the upper.
const MountInfo* ParentIn(const std::vector<MountInfo>& mounts, const MountInfo& info) {
  const MountInfo* parent = nullptr;
  for (const MountInfo& other : mounts) {
    if (other.id == info.id) break;
    if (!IsBelow(info.target, other.target)) continue;
    if (parent == nullptr || other.target.size() >= parent->target.size()) parent = &other;
  }
  return parent;
}

// A mount that was made in another mount namespace and came here, or could have: mount_namespaces(7) has it that what
// arrives at a shared mount is a peer of the original, what arrives at a slave is a slave of it, and nothing arrives at
// a private one. What was made here, below a shared mount, looks the same: taking it down takes it from all.
bool CameByPropagation(const MountInfo& info, const MountInfo* parent) {
  if (parent == nullptr) return false;
  if (parent->shared()) return info.shared() || info.master != 0;
  return parent->master != 0 && info.master != 0;
}

// The topmost mount at `path` lies on another there, and came by propagation: a task mounted it on its volume's root.
bool CameOntoAnother(const std::vector<MountInfo>& mounts, const std::string& path) {
  const auto top =
      std::find_if(mounts.rbegin(), mounts.rend(), [&](const MountInfo& info) { return info.target == path; });
  if (top == mounts.rend()) return false;
  const MountInfo* const parent = ParentIn(mounts, *top);
  return parent != nullptr && parent->target == path && CameByPropagation(*top, parent);
}

// One after another: "tmpfs is mounted below it at '/a'".
std::string NameBelow(const std::vector<MountInfo>& mounts) {
  std::string text;
  for (const MountInfo& info : mounts) {
    text += fmt::format("{}{} is mounted below it at {}", text.empty() ? "" : "; ", info.fs_type, Quote(info.target));
  }
  return text;
}

}  // namespace

bool IsStrayNode(const VolumeUse& use, const PathInfo& place, const std::string& owner) {
  return use.role == VolumeUse::Role::kTarget && use.access_type == AccessType::kBlock && place.mount &&
         place.kind == PathInfo::Kind::kBlockDevice && owner != use.volume_id;
}

bool HasPropagation(const MountInfo& info, Propagation propagation) {
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

// Images are named after their volume, and devices stacked on its own after that one.
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

std::string NodeVolumes::Owner(const PathInfo& info) {
  std::string owner = OwnerOf(info);
  if (!owner.empty()) return owner;
  const std::vector<KnownDevice> devices = source_.KnownDevices();
  const KnownDevice* const device = DeviceBehind(info, devices);
  return device != nullptr ? device->volume_id : "";
}

absl::StatusOr<NodeVolumes::Hold> NodeVolumes::Acquire(const std::string& volume_id, const std::string& path,
                                                       const Call& call) {
  // Always in this order, and one of each: nobody who holds a path waits for a volume.
  MOORING_ASSIGN_OR_RETURN(KeyedLocks::Hold volume, volume_locks_.Acquire(volume_id, "volume", call.wait_until));
  MOORING_ASSIGN_OR_RETURN(KeyedLocks::Hold at_path, path_locks_.Acquire(path, "path", call.wait_until));
  return Hold{std::move(volume), std::move(at_path)};
}

absl::StatusOr<NodeVolumes::Ending> NodeVolumes::AcquireToEnd(const std::string& volume_id, const std::string& path,
                                                              const Call& call) {
  constexpr int kAttempts = 3;  // each a race lost to somebody who uses the path for another volume
  std::string locked = volume_id;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    MOORING_ASSIGN_OR_RETURN(Hold hold, Acquire(locked, path, call));
    MOORING_ASSIGN_OR_RETURN(PathInfo place, mounter_.Find(path));
    MOORING_ASSIGN_OR_RETURN(std::optional<VolumeUse> known, store_.Get(path));
    std::string owner = place.mount ? Owner(place) : known ? known->volume_id : "";
    if (known && IsStrayNode(*known, place, owner)) owner = known->volume_id;  // to be unmounted all the same
    if (owner.empty() || owner == locked) {
      return Ending{std::move(hold), std::move(place), std::move(known), std::move(owner)};
    }
    MOORING_RETURN_IF_ERROR(CheckOwner(volume_id, path, owner));
    locked = std::move(owner);
  }
  return Aborted(fmt::format("{} is being used for other volumes: call again later", Quote(path)));
}

namespace {

absl::Status CheckCanBeOurs(const std::string& id, const std::string& path) {
  if (IsVolumeId(id) || IsEphemeralId(id)) return absl::OkStatus();
  return NotFound(
      fmt::format("volume {} does not exist, and no id of this driver is like that ({} and 32 hexadecimal digits, or "
                  "{} of an ephemeral volume); another volume is at {}: nothing was taken down",
                  Quote(id), kVolumeIdPrefix, kEphemeralIdPrefix, Quote(path)));
}

}  // namespace

// The use of a path is to end: whose is it? A volume that is unknown here gives no reason to leave a use of ours
// standing (its id may be lost, the path is not); another volume's is that volume's. An id that no volume of this
// driver can have ends no use of ours.
absl::Status NodeVolumes::CheckOwner(const std::string& volume_id, const std::string& path, const std::string& owner) {
  if (owner == volume_id) return absl::OkStatus();
  const absl::StatusOr<NodeVolume> asked = source_.Find(volume_id);
  if (absl::IsNotFound(asked.status())) return CheckCanBeOurs(volume_id, path);
  if (!asked.ok()) return asked.status();
  return FailedPrecondition(
      fmt::format("{} is in use for volume {}, not {}: it is left alone", Quote(path), owner, Quote(volume_id)));
}

absl::Status NodeVolumes::CheckMount(const std::string& volume_id, const std::string& path, const PathInfo& info) {
  const std::string owner = Owner(info);
  MOORING_ASSIGN_OR_RETURN(const std::optional<VolumeUse> known, store_.Get(path));
  if (known && known->volume_id == volume_id && IsStrayNode(*known, info, owner)) return absl::OkStatus();
  if (!owner.empty()) return CheckOwner(volume_id, path, owner);
  if (known && known->volume_id == volume_id) {
    MOORING_ASSIGN_OR_RETURN(const std::vector<MountInfo> mounts, mounter_.List(path));
    if (CameOntoAnother(mounts, path)) return absl::OkStatus();
  }
  return FailedPrecondition(
      fmt::format("{} is a mount ({} on device {}:{}) that is no volume of this driver: it is left alone", Quote(path),
                  info.mount->fs_type, major(info.device), minor(info.device)));
}

// What a task left there goes; what somebody else will ask for again does not.
absl::Status NodeVolumes::CheckNoVolumeBelow(const std::string& volume_id, const std::string& path,
                                             const MountInfo& info) {
  MOORING_ASSIGN_OR_RETURN(const PathInfo below, mounter_.Find(info.target));
  MOORING_ASSIGN_OR_RETURN(const std::optional<VolumeUse> known, store_.Get(info.target));
  const std::string owner = known ? known->volume_id : Owner(below);
  if (!known && (owner.empty() || owner == volume_id)) return absl::OkStatus();
  return FailedPrecondition(fmt::format("{} cannot be unmounted: volume {} is in use below it at {}; end that first",
                                        Quote(path), owner, Quote(info.target)));
}

// `refused` is why the path itself is not unmounted. With a mount of somebody's own below it, all stay as they are.
// Never lazily: a mount that is busy, here or where it came from, is the error, and what was taken down before it was
// found stays down: the next call goes on from there.
absl::Status NodeVolumes::TakeDownBelow(const std::string& volume_id, const std::string& path,
                                        const absl::Status& refused) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<MountInfo> mounts, mounter_.List(path));
  std::vector<MountInfo> below, own;
  for (const MountInfo& info : mounts) {
    if (info.target == path) continue;
    MOORING_RETURN_IF_ERROR(CheckNoVolumeBelow(volume_id, path, info));
    (CameByPropagation(info, ParentIn(mounts, info)) ? below : own).push_back(info);
  }
  if (!own.empty()) {
    return FailedPrecondition(
        fmt::format("{} cannot be unmounted: {}; unmount that first, it did not come by propagation and is left alone",
                    Quote(path), NameBelow(own)));
  }
  if (below.empty()) {
    return FailedPrecondition(fmt::format("{}; if it is in use by a process: fuser -vm {}", Message(refused), path));
  }
  std::reverse(below.begin(), below.end());  // children first
  for (const MountInfo& info : below) {
    MOORING_RETURN_IF_ERROR(Annotate(mounter_.Unmount({.target = info.target, .remove_target = false}),
                                     fmt::format("a mount that a task left below {}", Quote(path))));
  }
  return absl::OkStatus();
}

// Until nothing is mounted at the path: older drivers stacked mounts there. `info` is what is there now. What comes to
// light below a layer has to be the volume's, too.
absl::Status NodeVolumes::TakeDown(const std::string& volume_id, const std::string& path, PathInfo info,
                                   bool remove_target) {
  constexpr int kMostLayers = 256;
  for (int layer = 0; layer < kMostLayers; ++layer) {
    if (info.mount) MOORING_RETURN_IF_ERROR(CheckMount(volume_id, path, info));
    const std::uint64_t top = info.mount ? info.mount->id : 0;
    const absl::Status status = mounter_.Unmount({.target = path, .remove_target = remove_target});
    if (status.ok() && remove_target) return status;  // removed, so nothing was left on it
    MOORING_ASSIGN_OR_RETURN(info, mounter_.Find(path));
    if (!info.mount) return status;
    // One layer less: the next one is why the target could not be removed.
    if (status.ok() || info.mount->id != top) continue;
    if (!absl::IsFailedPrecondition(status)) return status;
    MOORING_RETURN_IF_ERROR(TakeDownBelow(volume_id, path, status));
  }
  return FailedPrecondition(fmt::format("{} has more than {} mounts on it", Quote(path), kMostLayers));
}

// Where a volume is staged or published. A block volume leaves no mount at its staging path: there the record speaks.
absl::StatusOr<NodeVolumes::Place> NodeVolumes::FindVolumeAt(const std::string& volume_id, const std::string& path) {
  MOORING_ASSIGN_OR_RETURN(PathInfo info, mounter_.Find(path));
  if (info.mount && Owner(info) == volume_id) return Place{path, std::move(info)};
  MOORING_ASSIGN_OR_RETURN(const std::optional<VolumeUse> known, store_.Get(path));
  if (known && known->volume_id == volume_id && !known->device.empty()) {
    MOORING_ASSIGN_OR_RETURN(PathInfo device, mounter_.Find(known->device));
    if (Owner(device) == volume_id) return Place{known->device, std::move(device)};
  }
  return NotFound(fmt::format("volume {} is not at {}", Quote(volume_id), Quote(path)));
}

absl::StatusOr<bool> NodeVolumes::IsLive(const VolumeUse& use) {
  if (use.access_type == AccessType::kBlock && use.role == VolumeUse::Role::kStage) {
    if (use.device.empty()) return false;
    MOORING_ASSIGN_OR_RETURN(const PathInfo device, mounter_.Find(use.device));
    return Owner(device) == use.volume_id;
  }
  MOORING_ASSIGN_OR_RETURN(const PathInfo info, mounter_.Find(use.path));
  return info.mount && Owner(info) == use.volume_id;
}

// A block volume's devices go when nothing needs them: a staging path (only the records know those), a call that has
// written its intent down, or a mount of the device node. Mounts are asked of the kernel: records of them may be lost,
// or be of mounts that others made and took away (kubelet binds block targets again for its pods). That costs a walk
// through the mount table, at the end of a block volume's use only. `gone` is a path whose record no longer counts.
absl::Status NodeVolumes::ReleaseDevices(const std::string& volume_id, const std::string& gone) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<VolumeUse> uses, store_.OfVolume(volume_id));
  const bool needed = std::any_of(uses.begin(), uses.end(), [&](const VolumeUse& use) {
    return use.access_type == AccessType::kBlock && use.path != gone &&
           (use.role == VolumeUse::Role::kStage || !use.done);
  });
  MOORING_ASSIGN_OR_RETURN(std::vector<LoopInfo> loops, mounter_.FindLoops(""));
  MOORING_RETURN_IF_ERROR(CheckNoneHangs(volume_id, loops));  // of one that hangs it cannot be said whether it is to go
  std::erase_if(loops,
                [&](const LoopInfo& loop) { return OwnerOf(loop) != volume_id || (loop.auto_clear && loop.mounted); });
  const bool stacked = std::any_of(loops.begin(), loops.end(),
                                   [&](const LoopInfo& loop) { return loop.label == ReadOnlyLabelFor(volume_id); });
  if (loops.empty() || (needed && !stacked)) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(const std::vector<MountInfo> mounts, mounter_.List("/"));
  MOORING_RETURN_IF_ERROR(ForgetAdopted(uses, mounts));
  return DetachUnbound(volume_id, loops, mounts, needed);
}

absl::Status NodeVolumes::DetachUnbound(const std::string& volume_id, const std::vector<LoopInfo>& loops,
                                        const std::vector<MountInfo>& mounts, bool needed) {
  std::set<std::string> bound;
  for (const MountInfo& info : mounts) bound.insert(std::string(NameOf(info.root)));
  // The stacked one first: it holds the other. The next publish that needs one stacks it again.
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

// Mounts that were found and are gone: whoever made them took them down.
absl::Status NodeVolumes::ForgetAdopted(const std::vector<VolumeUse>& uses, const std::vector<MountInfo>& mounts) {
  for (const VolumeUse& use : uses) {
    const bool there =
        std::any_of(mounts.begin(), mounts.end(), [&](const MountInfo& info) { return info.target == use.path; });
    if (use.adopted() && !there) MOORING_RETURN_IF_ERROR(Forget(use.path));
  }
  return absl::OkStatus();
}

// What was asked for is done, and its intent is on record: that the outcome is not must not make it a failure.
absl::Status NodeVolumes::Record(const VolumeUse& use) {
  if (const absl::Status put = store_.Put(use); !put.ok()) {
    log::Warning("a use is not recorded as done",
                 {{"volume", use.volume_id}, {"path", use.path}, {"cause", Message(put)}});
  }
  return absl::OkStatus();
}

// A record whose mount is gone holds nothing up, so a full disk is no reason to fail: the next start forgets it.
absl::Status NodeVolumes::Forget(const std::string& path) {
  const absl::Status removed = store_.Remove(path);
  if (!absl::IsResourceExhausted(removed)) return removed;
  log::Warning("the record of a mount that is gone stays until the next start",
               {{"path", path}, {"cause", Message(removed)}});
  return absl::OkStatus();
}

}  // namespace mooring
