// Unbind, unpublish, and unstage with the last user; also of broken mounts.

#include <algorithm>
#include <string>
#include <vector>

#include "base/file/path.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "manager/plugins/node_call.h"
#include "manager/records/names.h"
#include "manager/volumes/mounted.h"
#include "manager/volumes/node_volume.h"
#include "manager/volumes/places.h"
#include "manager/volumes/volume_manager.h"
#include "manager/volumes/volume_paths.h"

namespace mooring::manager {
namespace {

using csi::v1::NodeUnpublishVolumeRequest;
using csi::v1::NodeUnstageVolumeRequest;

absl::Status CallUnstage(NodeCaller& calls, const AttachmentRecord& record, Clock::time_point until) {
  const auto make = [&](const ReadyPlugin& node) {
    NodeUnstageVolumeRequest request;
    request.set_volume_id(IdForPlugin(record));
    request.set_staging_target_path(PathFor(node.instance, record.staging_path));
    return request;
  };
  return calls.Call<NodeUnstageVolumeRequest>(record.plugin, make, until).status();
}

// "/a/b/c" below "/a" is "/b/c".
std::string Below(const std::string& path, const std::string& above) { return path.substr(above.size()); }

}  // namespace

absl::Status VolumeManager::CallUnpublish(const AttachmentRecord& record, Clock::time_point until) {
  const auto make = [&](const ReadyPlugin& node) {
    NodeUnpublishVolumeRequest request;
    request.set_volume_id(IdForPlugin(record));
    request.set_target_path(PathFor(node.instance, record.target_path));
    return request;
  };
  return ending_calls_.Call<NodeUnpublishVolumeRequest>(record.plugin, make, until).status();
}

absl::Status VolumeManager::UnmountLocked(const AttachmentRecord& record, Clock::time_point until) {
  MOORING_RETURN_IF_ERROR(Annotate(Unbind(record), "unbind volume " + ToString(record.volume)));
  MOORING_RETURN_IF_ERROR(Annotate(Unpublish(record, until), "unpublish volume " + ToString(record.volume)));
  if (record.staging_path.empty()) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(const bool in_use, HasOtherUsers(record));
  if (in_use) return absl::OkStatus();
  return Annotate(Unstage(record, until), "unstage volume " + ToString(record.volume));
}

// A mount that the plugin left behind although it answered OK is unmounted here: otherwise it would stay for ever.
absl::Status VolumeManager::Unpublish(const AttachmentRecord& record, Clock::time_point until) {
  const absl::Status said = CallUnpublish(record, until);
  MOORING_ASSIGN_OR_RETURN(const PathInfo target, kernel_.Find(record.target_path));
  if (!said.ok() && !absl::IsNotFound(said) && target.kind != PathInfo::Kind::kMissing) return said;
  if (target.mount) MOORING_RETURN_IF_ERROR(UnmountAllLayers(record.target_path));
  // A target that cannot be removed is not empty, and stays.
  kernel_.Unmount({.target = record.target_path, .remove_target = true}).IgnoreError();
  RemoveEmptyDirectories(std::string(ParentOf(record.target_path)), TargetsOf(settings_.root, record.volume));
  return absl::OkStatus();
}

absl::Status VolumeManager::Unstage(const AttachmentRecord& record, Clock::time_point until) {
  const absl::Status said = CallUnstage(ending_calls_, record, until);
  MOORING_ASSIGN_OR_RETURN(const PathInfo staged, kernel_.Find(record.staging_path));
  // UNIMPLEMENTED without a mount is OK: a new version of the plugin may no longer stage.
  const bool done = said.ok() || absl::IsNotFound(said) || (absl::IsUnimplemented(said) && !staged.mount);
  if (!done) return said;
  if (staged.mount) MOORING_RETURN_IF_ERROR(UnmountAllLayers(record.staging_path));
  RemoveEmptyDirectories(record.staging_path, StagingsOf(settings_.root, record.plugin, record.volume));
  return absl::OkStatus();
}

// A plugin that cannot serve a volume on this host may refuse the unstage, too. It holds nothing of the volume then,
// and its claim must not stay for that. Only for a new attachment: another one keeps its staging path to be restored.
void VolumeManager::UndoRefusedStage(AttachmentRecord& record, Clock::time_point until) {
  if (record.phase != AttachmentRecord::Phase::kIntent) return;
  const absl::StatusOr<bool> in_use = HasOtherUsers(record);
  if (!in_use.ok() || *in_use) return;
  const absl::Status unstaged = CallUnstage(ending_calls_, record, until);
  const absl::StatusOr<PathInfo> left = kernel_.Find(record.staging_path);
  if ((!unstaged.ok() && !IsRefusal(unstaged)) || !left.ok() || left->mount) return;
  RemoveEmptyDirectories(record.staging_path, StagingsOf(settings_.root, record.plugin, record.volume));
  record.staging_path.clear();
}

void VolumeManager::RemoveDirectories(const Volume& volume) {
  for (const std::string& path :
       {StagingsOf(settings_.root, volume.plugin, volume.key), TargetsOf(settings_.root, volume.key)}) {
    RemoveEmptyDirectories(path, std::string(ParentOf(path)));
  }
}

// The plugin is asked first, because it may hold more than the mount. A mount that it leaves is unmounted here.
absl::Status VolumeManager::UnmountBroken(const AttachmentRecord& record, Clock::time_point until) {
  MOORING_RETURN_IF_ERROR(Unbind(record));
  CallUnpublish(record, until).IgnoreError();
  return Annotate(UnmountAllLayers(record.target_path), "unmount the broken mount");
}

absl::Status VolumeManager::UnmountBrokenStage(const AttachmentRecord& record, Clock::time_point until) {
  CallUnstage(ending_calls_, record, until).IgnoreError();
  return Annotate(UnmountAllLayers(record.staging_path), "unmount the broken mount");
}

// Mounts that propagation brought twice are stacked.
absl::Status VolumeManager::UnmountAllLayers(const std::string& path) {
  constexpr int kMostLayers = 16;
  for (int layer = 0; layer < kMostLayers; ++layer) {
    MOORING_RETURN_IF_ERROR(kernel_.Unmount({.target = path, .remove_target = false}));
    MOORING_ASSIGN_OR_RETURN(const PathInfo left, kernel_.Find(path));
    if (!left.mount) return absl::OkStatus();
  }
  return FailedPrecondition("{} is mounted again after each unmount: stop the process that mounts it", Quote(path));
}

// Outside the root only our own mount is unmounted, and only one layer of it.
absl::Status VolumeManager::UnbindBroken(const AttachmentRecord& record, const PathInfo& attached) {
  MOORING_ASSIGN_OR_RETURN(const bool ours, IsOurBind(record, attached));
  if (ours) return kernel_.Unmount({.target = record.attach_path, .remove_target = false});
  return FailedPrecondition("a broken mount of another owner is at {} ({}: {}): unmount it first",
                            Quote(record.attach_path), attached.mount->fs_type, attached.failure);
}

// A bind is ours if its mount id is in the record. The id is missing if the manager was killed after the bind. Kernels
// before 6.8 may use an id again. So a bind that shows the published volume is ours, too.
absl::StatusOr<bool> VolumeManager::IsOurBind(const AttachmentRecord& record, const PathInfo& attached) {
  if (attached.mount->id == record.attach_mount_id) return true;
  MOORING_ASSIGN_OR_RETURN(const PathInfo target, kernel_.Find(record.target_path));
  if (IsSame(target, attached)) return true;
  MOORING_ASSIGN_OR_RETURN(const std::vector<ListedMount> mounts, kernel_.List(record.attach_path));
  for (const MountInfo& mount : mounts) {
    if (mount.target == record.attach_path && mount.id == record.attach_mount_id) {
      return FailedPrecondition("another mount ({}) covers the volume at {}: unmount it first", attached.mount->fs_type,
                                Quote(record.attach_path));
    }
  }
  return false;
}

bool VolumeManager::IsAttached(const AttachmentRecord& record) {
  const bool bound = !record.attach_path.empty();
  const absl::StatusOr<PathInfo> seen = kernel_.Find(bound ? record.attach_path : record.target_path);
  if (!seen.ok()) return true;
  if (!bound) return IsMountOrDevice(*seen);
  return seen->mount && IsOurBind(record, *seen).value_or(true);
}

absl::Status VolumeManager::Unbind(const AttachmentRecord& record) {
  if (record.attach_path.empty()) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(const PathInfo attached, kernel_.Find(record.attach_path));
  if (attached.mount) {
    MOORING_ASSIGN_OR_RETURN(const bool ours, IsOurBind(record, attached));
    if (!ours) return absl::OkStatus();
    absl::Status status = kernel_.Unmount({.target = record.attach_path, .remove_target = false});
    if (absl::IsFailedPrecondition(status)) {
      MOORING_RETURN_IF_ERROR(UnmountBelow(record));
      status = kernel_.Unmount({.target = record.attach_path, .remove_target = false});
    }
    if (!status.ok()) return Annotate(status, "stop the processes that use it");
  }
  if (record.made_attach_path) {
    kernel_.Unmount({.target = record.attach_path, .remove_target = true}).IgnoreError();
  }
  return absl::OkStatus();
}

// A mount that came with the bind, or by propagation, is also below the target, and is unmounted. Any other mount below
// the volume has another owner.
absl::Status VolumeManager::UnmountBelow(const AttachmentRecord& record) {
  MOORING_ASSIGN_OR_RETURN(std::vector<ListedMount> mounts, kernel_.List(record.attach_path));
  MOORING_ASSIGN_OR_RETURN(const std::vector<ListedMount> known, kernel_.List(record.target_path));
  std::erase_if(mounts, [&](const MountInfo& mount) { return mount.target == record.attach_path; });
  const auto is_copy = [&](const MountInfo& mount) {
    return std::any_of(known.begin(), known.end(), [&](const MountInfo& other) {
      return Below(other.target, record.target_path) == Below(mount.target, record.attach_path) &&
             other.device == mount.device && other.root == mount.root;
    });
  };
  for (const MountInfo& mount : mounts) {
    if (is_copy(mount)) continue;
    return FailedPrecondition("another mount is at {} ({}), below the volume: unmount it first", Quote(mount.target),
                              mount.fs_type);
  }
  for (auto mount = mounts.rbegin(); mount != mounts.rend(); ++mount) {  // deepest first
    MOORING_RETURN_IF_ERROR(kernel_.Unmount({.target = mount->target, .remove_target = false}));
  }
  return absl::OkStatus();
}

}  // namespace mooring::manager
