// Unbind, unpublish, and with the last user unstage; and what is broken.
#include <fmt/format.h>

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

absl::Status CallUnpublish(NodeCaller& calls, const AttachmentRecord& record, Clock::time_point until) {
  const auto make = [&](const ReadyPlugin& node) {
    NodeUnpublishVolumeRequest request;
    request.set_volume_id(IdForPlugin(record));
    request.set_target_path(PathFor(node.instance, record.target_path));
    return request;
  };
  return calls.Call<NodeUnpublishVolumeRequest>(record.plugin, make, until).status();
}

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

absl::Status VolumeManager::UnmountLocked(const AttachmentRecord& record, Clock::time_point until) {
  MOORING_RETURN_IF_ERROR(Annotate(Unbind(record), "unbind volume " + ToString(record.volume)));
  MOORING_RETURN_IF_ERROR(Annotate(Unpublish(record, until), "unpublish volume " + ToString(record.volume)));
  if (record.staging_path.empty()) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(const bool in_use, HasOtherUsers(record));
  if (in_use) return absl::OkStatus();
  return Annotate(Unstage(record, until), "unstage volume " + ToString(record.volume));
}

// What the plugin says is one thing: what it says is gone and is not would leak for ever.
absl::Status VolumeManager::Unpublish(const AttachmentRecord& record, Clock::time_point until) {
  const absl::Status said = CallUnpublish(calls_, record, until);
  MOORING_ASSIGN_OR_RETURN(const PathInfo target, kernel_.Find(record.target_path));
  if (!said.ok() && !absl::IsNotFound(said) && target.kind != PathInfo::Kind::kMissing) return said;
  if (target.mount) MOORING_RETURN_IF_ERROR(Clear(record.target_path));
  // What cannot be removed is not empty, and nobody's mount: it stays.
  kernel_.Unmount({.target = record.target_path, .remove_target = true}).IgnoreError();
  RemoveEmptyDirectories(std::string(ParentOf(record.target_path)), TargetsOf(settings_.root, record.volume));
  return absl::OkStatus();
}

absl::Status VolumeManager::Unstage(const AttachmentRecord& record, Clock::time_point until) {
  const absl::Status said = CallUnstage(calls_, record, until);
  MOORING_ASSIGN_OR_RETURN(const PathInfo staged, kernel_.Find(record.staging_path));
  // An update of the plugin may have dropped staging: then there is nobody to ask, and nothing to be done.
  const bool done = said.ok() || absl::IsNotFound(said) || (absl::IsUnimplemented(said) && !staged.mount);
  if (!done) return said;
  if (staged.mount) MOORING_RETURN_IF_ERROR(Clear(record.staging_path));
  RemoveEmptyDirectories(record.staging_path, StagingsOf(settings_.root, record.plugin, record.volume));
  return absl::OkStatus();
}

void VolumeManager::RemovePlaces(const Volume& volume) {
  for (const std::string& path :
       {StagingsOf(settings_.root, volume.plugin, volume.key), TargetsOf(settings_.root, volume.key)}) {
    RemoveEmptyDirectories(path, std::string(ParentOf(path)));
  }
}

// The plugin first: it may know more of it. What it leaves is taken down here.
absl::Status VolumeManager::TakeDownBroken(const AttachmentRecord& record, Clock::time_point until) {
  MOORING_RETURN_IF_ERROR(Unbind(record));
  CallUnpublish(calls_, record, until).IgnoreError();
  return Annotate(Clear(record.target_path), "take down the broken mount");
}

absl::Status VolumeManager::TakeDownBrokenStage(const AttachmentRecord& record, Clock::time_point until) {
  CallUnstage(calls_, record, until).IgnoreError();
  return Annotate(Clear(record.staging_path), "take down the broken mount");
}

// All layers: what propagation brought twice is stacked.
absl::Status VolumeManager::Clear(const std::string& path) {
  constexpr int kMostLayers = 16;
  for (int layer = 0; layer < kMostLayers; ++layer) {
    MOORING_RETURN_IF_ERROR(kernel_.Unmount({.target = path, .remove_target = false}));
    MOORING_ASSIGN_OR_RETURN(const PathInfo left, kernel_.Find(path));
    if (!left.mount) return absl::OkStatus();
  }
  return FailedPrecondition(fmt::format("{} is mounted again and again: stop what mounts there", Quote(path)));
}

// Outside the root nothing of somebody else's goes, broken or not, and one layer of ours.
absl::Status VolumeManager::UnbindBroken(const AttachmentRecord& record, const PathInfo& attached) {
  MOORING_ASSIGN_OR_RETURN(const bool ours, IsOurBind(record, attached));
  if (ours) return kernel_.Unmount({.target = record.attach_path, .remove_target = false});
  return FailedPrecondition(
      fmt::format("a broken mount that is not the manager's is at {} ({}: {}): unmount that first",
                  Quote(record.attach_path), attached.mount->fs_type, attached.failure));
}

// It is ours where the kernel's id says so; where none was written down, for the manager was killed in between, or the
// kernel has only ids that are used again, where it shows what is published.
absl::StatusOr<bool> VolumeManager::IsOurBind(const AttachmentRecord& record, const PathInfo& attached) {
  if (attached.mount->id == record.attach_mount_id) return true;
  MOORING_ASSIGN_OR_RETURN(const PathInfo target, kernel_.Find(record.target_path));
  if (IsSame(target, attached)) return true;
  MOORING_ASSIGN_OR_RETURN(const std::vector<MountInfo> mounts, kernel_.List(record.attach_path));
  for (const MountInfo& mount : mounts) {
    if (mount.target == record.attach_path && mount.id == record.attach_mount_id) {
      return FailedPrecondition(fmt::format("somebody else's mount ({}) lies over the volume at {}: unmount that first",
                                            attached.mount->fs_type, Quote(record.attach_path)));
    }
  }
  return false;
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
    if (!status.ok()) return Annotate(status, "stop what uses it");
  }
  if (record.made_attach_path) {
    kernel_.Unmount({.target = record.attach_path, .remove_target = true}).IgnoreError();
  }
  return absl::OkStatus();
}

// What came with the bind, or by propagation, is seen below the target, too, and goes. Anything else is somebody's.
absl::Status VolumeManager::UnmountBelow(const AttachmentRecord& record) {
  MOORING_ASSIGN_OR_RETURN(std::vector<MountInfo> mounts, kernel_.List(record.attach_path));
  MOORING_ASSIGN_OR_RETURN(const std::vector<MountInfo> known, kernel_.List(record.target_path));
  std::erase_if(mounts, [&](const MountInfo& mount) { return mount.target == record.attach_path; });
  const auto is_copy = [&](const MountInfo& mount) {
    return std::any_of(known.begin(), known.end(), [&](const MountInfo& other) {
      return Below(other.target, record.target_path) == Below(mount.target, record.attach_path) &&
             other.device == mount.device && other.root == mount.root;
    });
  };
  for (const MountInfo& mount : mounts) {
    if (is_copy(mount)) continue;
    return FailedPrecondition(fmt::format("something is mounted at {} ({}), below the volume: unmount that first",
                                          Quote(mount.target), mount.fs_type));
  }
  for (auto mount = mounts.rbegin(); mount != mounts.rend(); ++mount) {  // the deepest first
    MOORING_RETURN_IF_ERROR(kernel_.Unmount({.target = mount->target, .remove_target = false}));
  }
  return absl::OkStatus();
}

}  // namespace mooring::manager
