#include "plugin/node/volume_teardown.h"

#include <fmt/format.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/file/path.h"
#include "base/log.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "plugin/model/volume_mount.h"

namespace mooring {
namespace {

// The mount on which `info` is mounted. `mounts` are those at and below a path, parents before children, and lower
// mounts of a stack before upper ones.
const ListedMount* ParentIn(const std::vector<ListedMount>& mounts, const ListedMount& info) {
  const ListedMount* parent = nullptr;
  for (const ListedMount& other : mounts) {
    if (other.id == info.id) break;
    if (!IsBelow(info.target, other.target)) continue;
    if (parent == nullptr || other.target.size() >= parent->target.size()) parent = &other;
  }
  return parent;
}

// Whether the mount came from another mount namespace, or could have. By mount_namespaces(7) a mount that arrives at a
// shared mount is a peer of the original. At a slave it is a slave, and none arrives at a private mount. A mount
// that was made here below a shared mount looks the same; unmounting it unmounts all its copies.
bool CameByPropagation(const ListedMount& info, const ListedMount* parent) {
  if (parent == nullptr) return false;
  if (parent->shared()) return info.shared() || info.master != 0;
  return parent->master != 0 && info.master != 0;
}

// Whether the topmost mount at `path` covers another mount there and came by propagation: a task mounted it on the root
// of its volume.
bool CameOntoAnother(const std::vector<ListedMount>& mounts, const std::string& path) {
  const auto top =
      std::find_if(mounts.rbegin(), mounts.rend(), [&](const ListedMount& info) { return info.target == path; });
  if (top == mounts.rend()) return false;
  const ListedMount* const parent = ParentIn(mounts, *top);
  return parent != nullptr && parent->target == path && CameByPropagation(*top, parent);
}

// For example "tmpfs is mounted below it at '/a'", joined with semicolons.
std::string NameBelow(const std::vector<ListedMount>& mounts) {
  std::string text;
  for (const ListedMount& info : mounts) {
    text += fmt::format("{}{} is mounted below it at {}", text.empty() ? "" : "; ", info.fs_type, Quote(info.target));
  }
  return text;
}

}  // namespace

absl::Status VolumeUnmounter::CheckMount(const std::string& volume_id, const std::string& path, const PathInfo& info) {
  const std::string owner = finder_.Owner(info);
  MOORING_ASSIGN_OR_RETURN(const std::optional<VolumeUse> known, store_.Get(path));
  if (known && known->volume_id == volume_id && IsStrayNode(*known, info, owner)) return absl::OkStatus();
  if (!owner.empty()) return finder_.CheckMayEnd(volume_id, path, owner);
  if (known && known->volume_id == volume_id) {
    MOORING_ASSIGN_OR_RETURN(const std::vector<ListedMount> mounts, mounts_.List(path));
    if (CameOntoAnother(mounts, path)) return absl::OkStatus();
  }
  const std::string answer = info.failure.empty() ? "" : fmt::format(", which does not answer: {}", info.failure);
  return FailedPrecondition("{} is a mount ({} on device {}:{}{}) that is no volume of this driver: it is left alone",
                            Quote(path), info.mount->fs_type, major(info.device), minor(info.device), answer);
}

// Mounts that a task left below may be unmounted. A mount that another call will unpublish may not.
absl::Status VolumeUnmounter::CheckNoVolumeBelow(const std::string& volume_id, const std::string& path,
                                                 const MountInfo& info) {
  MOORING_ASSIGN_OR_RETURN(const PathInfo below, mounts_.Find(info.target));
  MOORING_ASSIGN_OR_RETURN(const std::optional<VolumeUse> known, store_.Get(info.target));
  const std::string owner = known ? known->volume_id : finder_.Owner(below);
  if (!known && (owner.empty() || owner == volume_id)) return absl::OkStatus();
  return FailedPrecondition("{} cannot be unmounted: volume {} is in use below it at {}; end that first", Quote(path),
                            owner, Quote(info.target));
}

// `refused`: why the path itself could not be unmounted. A mount below it that was made here stops the call, and all
// mounts stay.
absl::Status VolumeUnmounter::UnmountBelow(const std::string& volume_id, const std::string& path,
                                           const absl::Status& refused) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<ListedMount> mounts, mounts_.List(path));
  std::vector<ListedMount> below, own;
  for (const ListedMount& info : mounts) {
    if (info.target == path) continue;
    MOORING_RETURN_IF_ERROR(CheckNoVolumeBelow(volume_id, path, info));
    (CameByPropagation(info, ParentIn(mounts, info)) ? below : own).push_back(info);
  }
  if (!own.empty()) {
    return FailedPrecondition(
        "{} cannot be unmounted: {}; unmount that first, it did not come by propagation and is left alone", Quote(path),
        NameBelow(own));
  }
  if (below.empty()) {
    return FailedPrecondition("{}; if it is in use by a process: fuser -vm {}", Message(refused), path);
  }
  std::reverse(below.begin(), below.end());  // children first
  for (const ListedMount& info : below) {
    MOORING_RETURN_IF_ERROR(Annotate(mounts_.Unmount({.target = info.target, .remove_target = false}),
                                     fmt::format("a mount that a task left below {}", Quote(path))));
  }
  return absl::OkStatus();
}

absl::Status VolumeUnmounter::Unmount(const std::string& volume_id, const std::string& path, PathInfo info,
                                      bool remove_target) {
  constexpr int kMostLayers = 256;
  for (int layer = 0; layer < kMostLayers; ++layer) {
    if (info.mount) MOORING_RETURN_IF_ERROR(CheckMount(volume_id, path, info));
    const std::uint64_t top = info.mount ? info.mount->id : 0;
    const absl::Status status = mounts_.Unmount({.target = path, .remove_target = remove_target});
    if (status.ok() && remove_target) return status;  // the directory was removed, so nothing is mounted there
    MOORING_ASSIGN_OR_RETURN(info, mounts_.Find(path));
    if (!info.mount) return status;
    // The next mount of the stack is why the target could not be removed.
    if (status.ok() || info.mount->id != top) continue;
    if (!absl::IsFailedPrecondition(status)) return status;
    MOORING_RETURN_IF_ERROR(UnmountBelow(volume_id, path, status));
  }
  return FailedPrecondition("{} has more than {} mounts on it", Quote(path), kMostLayers);
}

absl::StatusOr<VolumeTeardown::Ending> VolumeTeardown::AcquireToEnd(const std::string& volume_id,
                                                                    const std::string& path, const Call& call) {
  constexpr int kAttempts = 3;  // each lost to another use of the path
  std::string locked = volume_id;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    MOORING_ASSIGN_OR_RETURN(NodeLocks::Hold hold, locks_.AcquireToEnd(locked, path, call));
    MOORING_ASSIGN_OR_RETURN(PathInfo place, mounter_.Find(path));
    MOORING_ASSIGN_OR_RETURN(std::optional<VolumeUse> known, store_.Get(path));
    std::string owner = place.mount ? finder_.Owner(place) : known ? known->volume_id : "";
    if (known && IsStrayNode(*known, place, owner)) owner = known->volume_id;  // it is unmounted all the same
    if (owner.empty() || owner == locked) {
      return Ending{std::move(hold), std::move(place), std::move(known), std::move(owner)};
    }
    MOORING_RETURN_IF_ERROR(finder_.CheckMayEnd(volume_id, path, owner));
    locked = std::move(owner);
  }
  return Aborted("{} is being used for other volumes: call again later", Quote(path));
}

absl::StatusOr<std::string> VolumeTeardown::Unstage(const std::string& volume_id, const std::string& staging_path,
                                                    const Call& call) {
  MOORING_ASSIGN_OR_RETURN(Ending ending, AcquireToEnd(volume_id, staging_path, call));
  MOORING_RETURN_IF_ERROR(EndStaging(volume_id, staging_path, ending));
  return std::move(ending.owner);
}

absl::Status VolumeTeardown::EndStaging(const std::string& volume_id, const std::string& staging_path,
                                        const Ending& ending) {
  const bool is_block = ending.known && ending.known->access_type == AccessType::kBlock;
  if (ending.place.mount || plugin_stages_) {
    const absl::Status ended = unmounter_.Unmount(volume_id, staging_path, ending.place, plugin_stages_);
    // A block volume is not mounted at its staging path, so other files in that directory do not keep the device.
    if (!ended.ok() && (!is_block || ending.place.mount)) return ended;
    log::WarningIfFailed(ended, "a staging directory is left", {{"volume", volume_id}});
  }
  if (!ending.known) return absl::OkStatus();
  if (is_block) {
    MOORING_RETURN_IF_ERROR(devices_.Flush(ending.known->volume_id));
    MOORING_RETURN_IF_ERROR(devices_.Release(ending.known->volume_id, staging_path));
  } else {
    MOORING_RETURN_IF_ERROR(devices_.ReleaseMapping(ending.known->volume_id));
  }
  return store_.DeleteEnded(staging_path);
}

// The usual case, in one call to the mounter: what is on record as published there is there, or was unmounted already.
absl::StatusOr<bool> VolumeTeardown::UnpublishByRecord(const std::string& volume_id, const std::string& target_path,
                                                       const Call& call) {
  MOORING_ASSIGN_OR_RETURN(const NodeLocks::Hold hold, locks_.AcquireToEnd(volume_id, target_path, call));
  MOORING_ASSIGN_OR_RETURN(const std::optional<VolumeUse> known, store_.Get(target_path));
  if (!known || known->volume_id != volume_id || known->access_type != AccessType::kMount) return false;
  const absl::StatusOr<bool> done = mounter_.UnmountIf(
      {.unmount = {.target = target_path, .remove_target = true}, .target = ExpectedMountOf(volume_id)});
  // Another mount is at the path, or below it; or the mount helper ended, and the next one tells how far it got.
  if (absl::IsFailedPrecondition(done.status()) || absl::IsUnavailable(done.status())) return false;
  if (!done.ok() || !*done) return done;
  MOORING_RETURN_IF_ERROR(store_.DeleteEnded(target_path));
  return true;
}

absl::StatusOr<std::string> VolumeTeardown::Unpublish(const std::string& volume_id, const std::string& target_path,
                                                      const Call& call) {
  std::string owner = volume_id;
  MOORING_ASSIGN_OR_RETURN(const bool ended, UnpublishByRecord(volume_id, target_path, call));
  if (!ended) {
    MOORING_ASSIGN_OR_RETURN(const Ending ending, AcquireToEnd(volume_id, target_path, call));
    MOORING_RETURN_IF_ERROR(EndTarget(volume_id, target_path, ending));
    owner = ending.owner;
  }
  if (!plugin_stages_) return owner;
  MOORING_RETURN_IF_ERROR(
      Annotate(UnstageUnused(owner.empty() ? volume_id : owner, call),
               fmt::format("the target {} is gone, and what is staged for it is not", Quote(target_path))));
  return owner;
}

absl::Status VolumeTeardown::EndTarget(const std::string& volume_id, const std::string& target_path,
                                       const Ending& ending) {
  if (ending.place.kind == PathInfo::Kind::kSymlink) {
    return FailedPrecondition("target path {} is a symbolic link: it is left alone", Quote(target_path));
  }
  MOORING_RETURN_IF_ERROR(unmounter_.Unmount(volume_id, target_path, ending.place, true));
  const bool was_block = ending.place.kind == PathInfo::Kind::kBlockDevice ||
                         (ending.known && ending.known->access_type == AccessType::kBlock);
  if (was_block && !ending.owner.empty()) {
    MOORING_RETURN_IF_ERROR(devices_.Release(ending.owner, target_path));
  }
  return ending.known ? store_.DeleteEnded(target_path) : absl::OkStatus();
}

absl::Status VolumeTeardown::UnstageUnused(const std::string& volume_id, const Call& call) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<VolumeUse> uses, store_.OfVolume(volume_id));
  absl::Status outcome;
  for (const VolumeUse& use : uses) {
    if (use.role == VolumeUse::Role::kStage) outcome.Update(UnstageIfUnused(volume_id, use.path, call));
  }
  return outcome;
}

absl::Status VolumeTeardown::UnstageIfUnused(const std::string& volume_id, const std::string& staging_path,
                                             const Call& call) {
  MOORING_ASSIGN_OR_RETURN(const Ending ending, AcquireToEnd(volume_id, staging_path, call));
  const auto is_target = [](const VolumeUse& use) { return use.role == VolumeUse::Role::kTarget; };
  MOORING_ASSIGN_OR_RETURN(const std::optional<VolumeUse> target, finder_.FindLive(volume_id, is_target));
  return target ? absl::OkStatus() : EndStaging(volume_id, staging_path, ending);
}

}  // namespace mooring
