#include "plugin/node/uses/volume_unmounter.h"

#include <fmt/format.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/file/path.h"
#include "base/status.h"
#include "base/text/quote.h"

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
  return FailedPrecondition("{} is a mount ({} on device {}:{}) that is no volume of this driver: it is left alone",
                            Quote(path), info.mount->fs_type, major(info.device), minor(info.device));
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

}  // namespace mooring
