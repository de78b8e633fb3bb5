#include "manager/volumes/node_unmounter.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/file/path.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "manager/csi/csi_volume.h"
#include "manager/records/names.h"
#include "manager/volumes/volume_paths.h"

namespace mooring::manager {
namespace {

using csi::v1::NodeUnpublishVolumeRequest;
using csi::v1::NodeUnstageVolumeRequest;

RetryPolicy AtAnyTime(RetryPolicy retry) {
  retry.may_call = RetryPolicy().may_call;
  return retry;
}

// "/a/b/c" below "/a" is "/b/c".
std::string Below(const std::string& path, const std::string& above) { return path.substr(above.size()); }

// A missing directory has no entries.
absl::StatusOr<std::vector<std::string>> EntriesOf(const std::string& directory) {
  std::vector<std::string> entries;
  std::error_code error;
  for (std::filesystem::directory_iterator at(directory, error), end; !error && at != end; at.increment(error)) {
    entries.push_back(at->path().string());
  }
  const bool none = error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory;
  if (error && !none) return ErrnoStatus(error.value(), "search for other users of the volume in", directory);
  return entries;
}

// All target paths of the volume. Read from the manager's directories, which are few, and not from the host's mount
// table.
absl::StatusOr<std::vector<std::string>> TargetsIn(const std::string& targets_of_volume) {
  std::vector<std::string> targets;
  MOORING_ASSIGN_OR_RETURN(const std::vector<std::string> allocations, EntriesOf(targets_of_volume));
  for (const std::string& allocation : allocations) {
    MOORING_ASSIGN_OR_RETURN(const std::vector<std::string> requests, EntriesOf(allocation));
    for (const std::string& request : requests) {
      MOORING_ASSIGN_OR_RETURN(const std::vector<std::string> usages, EntriesOf(request));
      targets.insert(targets.end(), usages.begin(), usages.end());
    }
  }
  return targets;
}

std::set<std::string> PathsOf(const std::vector<AttachmentRecord>& records) {
  std::set<std::string> paths;
  for (const AttachmentRecord& record : records) {
    paths.insert({record.target_path, record.staging_path, record.attach_path});
  }
  return paths;
}

}  // namespace

NodeUnmounter::NodeUnmounter(PluginDirectory& plugins, Mounts& kernel, const AttachmentJournal& journal,
                             std::string root, const RetryPolicy& retry)
    : kernel_(kernel), journal_(journal), root_(std::move(root)), calls_(plugins, AtAnyTime(retry)) {}

absl::Status NodeUnmounter::CallUnstage(const AttachmentRecord& record, Clock::time_point until) {
  const auto make = [&](const ReadyPlugin& node) {
    NodeUnstageVolumeRequest request;
    request.set_volume_id(IdForPlugin(record));
    request.set_staging_target_path(PathFor(node.instance, record.staging_path));
    return request;
  };
  return calls_.Call<NodeUnstageVolumeRequest>(record.plugin, make, until).status();
}

absl::Status NodeUnmounter::CallUnpublish(const AttachmentRecord& record, Clock::time_point until) {
  const auto make = [&](const ReadyPlugin& node) {
    NodeUnpublishVolumeRequest request;
    request.set_volume_id(IdForPlugin(record));
    request.set_target_path(PathFor(node.instance, record.target_path));
    return request;
  };
  return calls_.Call<NodeUnpublishVolumeRequest>(record.plugin, make, until).status();
}

absl::Status NodeUnmounter::Unmount(const AttachmentRecord& record, Clock::time_point until) {
  MOORING_RETURN_IF_ERROR(Annotate(Unbind(record), "unbind volume " + ToString(record.volume)));
  MOORING_RETURN_IF_ERROR(Annotate(Unpublish(record, until), "unpublish volume " + ToString(record.volume)));
  if (record.staging_path.empty()) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(const bool in_use, HasOtherUsers(record));
  if (in_use) return absl::OkStatus();
  return Annotate(Unstage(record, until), "unstage volume " + ToString(record.volume));
}

// A mount that the plugin left behind although it answered OK is unmounted here: otherwise it would stay for ever.
absl::Status NodeUnmounter::Unpublish(const AttachmentRecord& record, Clock::time_point until) {
  const absl::Status said = CallUnpublish(record, until);
  MOORING_ASSIGN_OR_RETURN(const PathInfo target, kernel_.Find(record.target_path));
  if (!said.ok() && !absl::IsNotFound(said) && target.kind != PathInfo::Kind::kMissing) return said;
  if (target.mount) MOORING_RETURN_IF_ERROR(UnmountAllLayers(record.target_path));
  // A target that cannot be removed is not empty, and stays.
  kernel_.Unmount({.target = record.target_path, .remove_target = true}).IgnoreError();
  RemoveEmptyDirectories(std::string(ParentOf(record.target_path)), TargetsOf(root_, record.volume));
  return absl::OkStatus();
}

absl::Status NodeUnmounter::Unstage(const AttachmentRecord& record, Clock::time_point until) {
  const absl::Status said = CallUnstage(record, until);
  MOORING_ASSIGN_OR_RETURN(const PathInfo staged, kernel_.Find(record.staging_path));
  // UNIMPLEMENTED without a mount is OK: a new version of the plugin may no longer stage.
  const bool done = said.ok() || absl::IsNotFound(said) || (absl::IsUnimplemented(said) && !staged.mount);
  if (!done) return said;
  if (staged.mount) MOORING_RETURN_IF_ERROR(UnmountAllLayers(record.staging_path));
  RemoveEmptyDirectories(record.staging_path, StagingsOf(root_, record.plugin, record.volume));
  return absl::OkStatus();
}

// A plugin that cannot serve a volume on this host may refuse the unstage, too. It holds nothing of the volume then,
// and its claim must not stay for that. Only for a new attachment: another one keeps its staging path to be restored.
void NodeUnmounter::UndoRefusedStage(AttachmentRecord& record, Clock::time_point until) {
  if (record.phase != AttachmentRecord::Phase::kIntent) return;
  const absl::StatusOr<bool> in_use = HasOtherUsers(record);
  if (!in_use.ok() || *in_use) return;
  const absl::Status unstaged = CallUnstage(record, until);
  const absl::StatusOr<PathInfo> left = kernel_.Find(record.staging_path);
  if ((!unstaged.ok() && !IsRefusal(unstaged)) || !left.ok() || left->mount) return;
  RemoveEmptyDirectories(record.staging_path, StagingsOf(root_, record.plugin, record.volume));
  record.staging_path.clear();
}

void NodeUnmounter::RemoveDirectories(const Volume& volume) {
  for (const std::string& path : {StagingsOf(root_, volume.plugin, volume.key), TargetsOf(root_, volume.key)}) {
    RemoveEmptyDirectories(path, std::string(ParentOf(path)));
  }
}

// The plugin is asked first, because it may hold more than the mount. A mount that it leaves is unmounted here.
absl::Status NodeUnmounter::UnmountBroken(const AttachmentRecord& record, Clock::time_point until) {
  MOORING_RETURN_IF_ERROR(Unbind(record));
  CallUnpublish(record, until).IgnoreError();
  return Annotate(UnmountAllLayers(record.target_path), "unmount the broken mount");
}

absl::Status NodeUnmounter::UnmountBrokenStage(const AttachmentRecord& record, Clock::time_point until) {
  CallUnstage(record, until).IgnoreError();
  return Annotate(UnmountAllLayers(record.staging_path), "unmount the broken mount");
}

// Mounts that propagation brought twice are stacked.
absl::Status NodeUnmounter::UnmountAllLayers(const std::string& path) {
  constexpr int kMostLayers = 16;
  for (int layer = 0; layer < kMostLayers; ++layer) {
    MOORING_RETURN_IF_ERROR(kernel_.Unmount({.target = path, .remove_target = false}));
    MOORING_ASSIGN_OR_RETURN(const PathInfo left, kernel_.Find(path));
    if (!left.mount) return absl::OkStatus();
  }
  return FailedPrecondition("{} is mounted again after each unmount: stop the process that mounts it", Quote(path));
}

// Outside the root only our own mount is unmounted, and only one layer of it.
absl::Status NodeUnmounter::UnbindBroken(const AttachmentRecord& record, const PathInfo& attached) {
  MOORING_ASSIGN_OR_RETURN(const bool ours, IsOurBind(record, attached));
  if (ours) return kernel_.Unmount({.target = record.attach_path, .remove_target = false});
  return FailedPrecondition("a broken mount of another owner is at {} ({}: {}): unmount it first",
                            Quote(record.attach_path), attached.mount->fs_type, attached.failure);
}

// A bind is ours if its mount id is in the record. The id is missing if the manager was killed after the bind. Kernels
// before 6.8 may use an id again. So a bind that shows the published volume is ours, too.
absl::StatusOr<bool> NodeUnmounter::IsOurBind(const AttachmentRecord& record, const PathInfo& attached) {
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

bool NodeUnmounter::IsAttached(const AttachmentRecord& record) {
  const bool bound = !record.attach_path.empty();
  const absl::StatusOr<PathInfo> seen = kernel_.Find(bound ? record.attach_path : record.target_path);
  if (!seen.ok()) return true;
  if (!bound) return IsMountOrDevice(*seen);
  return seen->mount && IsOurBind(record, *seen).value_or(true);
}

bool NodeUnmounter::IsMountedAnywhere(const AttachmentRecord& record) {
  const auto shows_mount = [&](const std::string& path) {
    const absl::StatusOr<PathInfo> seen = path.empty() ? PathInfo() : kernel_.Find(path);
    return !seen.ok() || IsMountOrDevice(*seen);
  };
  if (IsAttached(record) || shows_mount(record.target_path)) return true;
  const std::vector<AttachmentRecord> known = journal_.Of(record.volume);
  const bool is_shared = std::any_of(known.begin(), known.end(), [&](const AttachmentRecord& other) {
    return other.phase == AttachmentRecord::Phase::kMounted && other.staging_path == record.staging_path;
  });
  return !is_shared && shows_mount(record.staging_path);
}

absl::Status NodeUnmounter::Unbind(const AttachmentRecord& record) {
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
absl::Status NodeUnmounter::UnmountBelow(const AttachmentRecord& record) {
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

// A record in phase mounted is a user, whatever the kernel shows: it will be restored or detached. A record in another
// phase is a user while its target is mounted: before that, its Mount waits for the lock and stages again.
absl::StatusOr<bool> NodeUnmounter::HasOtherUsers(const AttachmentRecord& record) {
  const std::vector<AttachmentRecord> known = journal_.Of(record.volume);
  for (const AttachmentRecord& other : known) {
    const bool is_self = other.allocation == record.allocation && other.request == record.request;
    if (is_self || other.staging_path != record.staging_path) continue;
    if (other.phase == AttachmentRecord::Phase::kMounted) return true;
    MOORING_ASSIGN_OR_RETURN(const PathInfo target, kernel_.Find(other.target_path));
    if (IsMountOrDevice(target)) return true;
  }
  MOORING_RETURN_IF_ERROR(CheckUnknownUsers(record, known));
  return false;
}

// Looks for mounts of the stage at targets of the volume that no record has. A lost journal leaves them, or a call that
// took effect after its caller gave up. An unknown mount is not unmounted. Stage and claim stay then, because the
// controller must not unpublish a volume with a mounted filesystem. The record of such a mount may also be damaged.
// Then it may be the device of a volume whose stage is no mount.
absl::Status NodeUnmounter::CheckUnknownUsers(const AttachmentRecord& record,
                                              const std::vector<AttachmentRecord>& known) {
  MOORING_ASSIGN_OR_RETURN(const PathInfo staged, kernel_.Find(record.staging_path));
  const absl::Status readable = journal_.CheckReadable();
  if (!staged.mount && readable.ok()) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(const std::vector<std::string> targets, TargetsIn(TargetsOf(root_, record.volume)));
  for (const std::string& target : targets) {
    const bool is_known = std::any_of(known.begin(), known.end(),
                                      [&](const AttachmentRecord& other) { return other.target_path == target; });
    if (is_known) continue;
    MOORING_ASSIGN_OR_RETURN(const PathInfo published, kernel_.Find(target));
    if (!readable.ok() && IsMountOrDevice(published)) {
      return Annotate(readable, fmt::format("it stays staged, because {} may be in use", Quote(target)));
    }
    if (!published.mount || !staged.mount || published.mount->device != staged.mount->device) continue;
    return FailedPrecondition(
        "it stays staged at {}, because it is mounted at {}, which no attachment has: unmount that first",
        Quote(record.staging_path), Quote(target));
  }
  return absl::OkStatus();
}

// A mount at one of the volume's own paths tells its filesystem. Binds of the same filesystem elsewhere are found by
// that, also after the first one is unmounted. The journal is read last, because it has an attachment before its
// mounts.
absl::StatusOr<std::vector<std::string>> NodeUnmounter::FindUnknownMounts(const Volume& volume) {
  MOORING_ASSIGN_OR_RETURN(std::vector<std::string> own, TargetsIn(TargetsOf(root_, volume.key)));
  MOORING_ASSIGN_OR_RETURN(const std::vector<std::string> stages,
                           EntriesOf(StagingsOf(root_, volume.plugin, volume.key)));
  own.insert(own.end(), stages.begin(), stages.end());
  MOORING_ASSIGN_OR_RETURN(const std::vector<ListedMount> mounts, kernel_.List("/"));
  const std::set<std::string> known = PathsOf(journal_.Of(volume.key));
  const std::lock_guard<std::mutex> lock(unknown_mutex_);
  std::set<Filesystem>& unknown = unknown_[volume.key];
  for (const ListedMount& mount : mounts) {
    const bool is_own = std::find(own.begin(), own.end(), mount.target) != own.end();
    if (is_own && !known.contains(mount.target)) unknown.emplace(mount.device, mount.root);
  }
  std::vector<std::string> found;
  for (const ListedMount& mount : mounts) {
    if (unknown.contains({mount.device, mount.root}) && !known.contains(mount.target)) found.push_back(mount.target);
  }
  if (found.empty()) unknown_.erase(volume.key);
  return found;
}

}  // namespace mooring::manager
