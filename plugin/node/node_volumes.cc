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

// The mount on which `info` is mounted. `mounts` are those at and below a path, parents before children, and lower
// mounts of a stack before upper ones.
const MountInfo* ParentIn(const std::vector<MountInfo>& mounts, const MountInfo& info) {
  const MountInfo* parent = nullptr;
  for (const MountInfo& other : mounts) {
    if (other.id == info.id) break;
    if (!IsBelow(info.target, other.target)) continue;
    if (parent == nullptr || other.target.size() >= parent->target.size()) parent = &other;
  }
  return parent;
}

// Whether the mount came from another mount namespace, or could have. By mount_namespaces(7) a mount that arrives at a
// shared mount is a peer of the original. At a slave it is a slave, and none arrives at a private mount. A mount
// that was made here below a shared mount looks the same; unmounting it unmounts all its copies.
bool CameByPropagation(const MountInfo& info, const MountInfo* parent) {
  if (parent == nullptr) return false;
  if (parent->shared()) return info.shared() || info.master != 0;
  return parent->master != 0 && info.master != 0;
}

// Whether the topmost mount at `path` covers another mount there and came by propagation: a task mounted it on the root
// of its volume.
bool CameOntoAnother(const std::vector<MountInfo>& mounts, const std::string& path) {
  const auto top =
      std::find_if(mounts.rbegin(), mounts.rend(), [&](const MountInfo& info) { return info.target == path; });
  if (top == mounts.rend()) return false;
  const MountInfo* const parent = ParentIn(mounts, *top);
  return parent != nullptr && parent->target == path && CameByPropagation(*top, parent);
}

// For example "tmpfs is mounted below it at '/a'", joined with semicolons.
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

std::string NodeVolumes::Owner(const PathInfo& info) {
  std::string owner = OwnerOf(info);
  if (!owner.empty()) return owner;
  const std::vector<KnownDevice> devices = source_.KnownDevices();
  const KnownDevice* const device = DeviceBehind(info, devices);
  return device != nullptr ? device->volume_id : "";
}

absl::StatusOr<NodeVolumes::Hold> NodeVolumes::Acquire(const std::string& volume_id, const std::string& path,
                                                       const Call& call) {
  // The order is fixed, so no call that holds a path waits for a volume.
  MOORING_ASSIGN_OR_RETURN(KeyedLocks::Hold volume, volume_locks_.Acquire(volume_id, "volume", call.wait_until));
  MOORING_ASSIGN_OR_RETURN(KeyedLocks::Hold at_path, path_locks_.Acquire(path, "path", call.wait_until));
  return Hold{std::move(volume), std::move(at_path)};
}

absl::StatusOr<NodeVolumes::Ending> NodeVolumes::AcquireToEnd(const std::string& volume_id, const std::string& path,
                                                              const Call& call) {
  constexpr int kAttempts = 3;  // each lost to another use of the path
  std::string locked = volume_id;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    MOORING_ASSIGN_OR_RETURN(Hold hold, Acquire(locked, path, call));
    MOORING_ASSIGN_OR_RETURN(PathInfo place, mounter_.Find(path));
    MOORING_ASSIGN_OR_RETURN(std::optional<VolumeUse> known, store_.Get(path));
    std::string owner = place.mount ? Owner(place) : known ? known->volume_id : "";
    if (known && IsStrayNode(*known, place, owner)) owner = known->volume_id;  // it is unmounted all the same
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

// Checks that a call for `volume_id` may end the use of `path` by `owner`. An unknown volume may: its id may be lost,
// and its path must be cleaned up. Another known volume may not, nor may an id that this driver never makes.
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

// Mounts that a task left below may be unmounted. A mount that another call will unpublish may not.
absl::Status NodeVolumes::CheckNoVolumeBelow(const std::string& volume_id, const std::string& path,
                                             const MountInfo& info) {
  MOORING_ASSIGN_OR_RETURN(const PathInfo below, mounter_.Find(info.target));
  MOORING_ASSIGN_OR_RETURN(const std::optional<VolumeUse> known, store_.Get(info.target));
  const std::string owner = known ? known->volume_id : Owner(below);
  if (!known && (owner.empty() || owner == volume_id)) return absl::OkStatus();
  return FailedPrecondition(fmt::format("{} cannot be unmounted: volume {} is in use below it at {}; end that first",
                                        Quote(path), owner, Quote(info.target)));
}

// `refused`: why the path itself could not be unmounted. A mount below it that was made here stops the call, and all
// mounts stay. It never unmounts lazily: a busy mount is an error. Mounts that were unmounted before the error stay
// unmounted, and the next call continues.
absl::Status NodeVolumes::UnmountWithBelow(const std::string& volume_id, const std::string& path,
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

// Unmounts until nothing is mounted at the path, because other drivers stacked mounts there. `info`: the mount that is
// there now. Every mount of the stack must belong to the volume.
absl::Status NodeVolumes::UnmountVolume(const std::string& volume_id, const std::string& path, PathInfo info,
                                        bool remove_target) {
  constexpr int kMostLayers = 256;
  for (int layer = 0; layer < kMostLayers; ++layer) {
    if (info.mount) MOORING_RETURN_IF_ERROR(CheckMount(volume_id, path, info));
    const std::uint64_t top = info.mount ? info.mount->id : 0;
    const absl::Status status = mounter_.Unmount({.target = path, .remove_target = remove_target});
    if (status.ok() && remove_target) return status;  // the directory was removed, so nothing is mounted there
    MOORING_ASSIGN_OR_RETURN(info, mounter_.Find(path));
    if (!info.mount) return status;
    // The next mount of the stack is why the target could not be removed.
    if (status.ok() || info.mount->id != top) continue;
    if (!absl::IsFailedPrecondition(status)) return status;
    MOORING_RETURN_IF_ERROR(UnmountWithBelow(volume_id, path, status));
  }
  return FailedPrecondition(fmt::format("{} has more than {} mounts on it", Quote(path), kMostLayers));
}

// The path at which the volume is staged or published. A block volume is not mounted at its staging path, so the record
// decides there.
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

// Detaches the devices of a block volume that nothing needs. Staging paths (only records know them), calls under way
// and mounts of the device node need them. It asks the kernel for mounts, because records may be lost, and kubelet
// binds block targets again for its pods. That reads the mount table once, at the end of a block volume's use. `gone`:
// a path whose record no longer counts.
absl::Status NodeVolumes::ReleaseDevices(const std::string& volume_id, const std::string& gone) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<VolumeUse> uses, store_.OfVolume(volume_id));
  const bool needed = std::any_of(uses.begin(), uses.end(), [&](const VolumeUse& use) {
    return use.access_type == AccessType::kBlock && use.path != gone &&
           (use.role == VolumeUse::Role::kStage || !use.done);
  });
  MOORING_ASSIGN_OR_RETURN(std::vector<LoopInfo> loops, mounter_.FindLoops(""));
  MOORING_RETURN_IF_ERROR(CheckNoneHangs(volume_id, loops));  // a hanging device may still be in use
  std::erase_if(loops,
                [&](const LoopInfo& loop) { return OwnerOf(loop) != volume_id || (loop.auto_clear && loop.mounted); });
  const bool stacked = std::any_of(loops.begin(), loops.end(),
                                   [&](const LoopInfo& loop) { return loop.label == ReadOnlyLabelFor(volume_id); });
  if (loops.empty() || (needed && !stacked)) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(const std::vector<MountInfo> mounts, mounter_.List("/"));
  MOORING_RETURN_IF_ERROR(DeleteStaleAdopted(uses, mounts));
  return DetachUnbound(volume_id, loops, mounts, needed);
}

absl::Status NodeVolumes::DetachUnbound(const std::string& volume_id, const std::vector<LoopInfo>& loops,
                                        const std::vector<MountInfo>& mounts, bool needed) {
  std::set<std::string> bound;
  for (const MountInfo& info : mounts) bound.insert(std::string(NameOf(info.root)));
  // The stacked device goes first, because it holds the other. The next publish that needs it attaches it again.
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
absl::Status NodeVolumes::DeleteStaleAdopted(const std::vector<VolumeUse>& uses, const std::vector<MountInfo>& mounts) {
  for (const VolumeUse& use : uses) {
    const bool there =
        std::any_of(mounts.begin(), mounts.end(), [&](const MountInfo& info) { return info.target == use.path; });
    if (use.adopted() && !there) MOORING_RETURN_IF_ERROR(DeleteRecord(use.path));
  }
  return absl::OkStatus();
}

// The use is done and its intent is recorded. So a failed write of the outcome does not fail the call.
absl::Status NodeVolumes::Record(const VolumeUse& use) {
  if (const absl::Status put = store_.Put(use); !put.ok()) {
    log::Warning("a use is not recorded as done",
                 {{"volume", use.volume_id}, {"path", use.path}, {"cause", Message(put)}});
  }
  return absl::OkStatus();
}

// A record without a mount does no harm, so a full disk does not fail the call. The next start deletes it.
absl::Status NodeVolumes::DeleteRecord(const std::string& path) {
  const absl::Status removed = store_.Delete(path);
  if (!absl::IsResourceExhausted(removed)) return removed;
  log::Warning("the record of an unmounted use stays until the next start",
               {{"path", path}, {"cause", Message(removed)}});
  return absl::OkStatus();
}

}  // namespace mooring
