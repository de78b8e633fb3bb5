// Stage, publish, bind: each step only if the kernel does not show its mount.
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "base/file/path.h"
#include "base/file/unique_fd.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "manager/plugins/node_call.h"
#include "manager/records/names.h"
#include "manager/volumes/mounted.h"
#include "manager/volumes/node_volume.h"
#include "manager/volumes/places.h"
#include "manager/volumes/volume_manager.h"

namespace mooring::manager {
namespace {

using csi::v1::NodePublishVolumeRequest;
using csi::v1::NodeStageVolumeRequest;

// Sets the fields that stage and publish share.
template <typename Request>
void FillRequest(Request& request, const ReadyPlugin& node, const AttachmentRecord& record,
                 const MountContext& context) {
  request.set_volume_id(IdForPlugin(record));
  request.mutable_publish_context()->insert(context.publish_context.begin(), context.publish_context.end());
  request.mutable_volume_context()->insert(context.volume_context.begin(), context.volume_context.end());
  if (!record.staging_path.empty()) request.set_staging_target_path(PathFor(node.instance, record.staging_path));
  *request.mutable_volume_capability() = CapabilityFor(node, record);
  context.secrets.CopyTo(*request.mutable_secrets());
}

absl::StatusOr<bool> IsReadOnlyDevice(const std::string& path) {
  const UniqueFd device(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC));
  if (!device.ok()) return ErrnoStatus(errno, "open", path);
  int read_only = 0;
  if (::ioctl(device.get(), BLKROGET, &read_only) != 0) return ErrnoStatus(errno, "ask", path);
  return read_only != 0;
}

}  // namespace

absl::Status VolumeManager::MountLocked(AttachmentRecord& record, const MountContext& context,
                                        Clock::time_point until) {
  MOORING_RETURN_IF_ERROR(CheckAwaited(context.is_abandoned));
  const absl::Status staged = Stage(record, context, until);
  if (IsRefusal(staged)) UndoRefusedStage(record, until);
  MOORING_RETURN_IF_ERROR(Annotate(staged, "stage volume " + ToString(record.volume)));
  MOORING_RETURN_IF_ERROR(Annotate(Publish(record, context, until), "publish volume " + ToString(record.volume)));
  return Annotate(AsHostError(BindForUser(record)), "bind volume " + ToString(record.volume));
}

absl::Status VolumeManager::Stage(const AttachmentRecord& record, const MountContext& context,
                                  Clock::time_point until) {
  if (record.staging_path.empty()) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(const PathInfo staged, Inspect(record.staging_path));
  if (IsBroken(staged)) {
    MOORING_RETURN_IF_ERROR(UnmountBrokenStage(record, until));
  } else if (staged.mount) {
    return absl::OkStatus();
  }
  MOORING_RETURN_IF_ERROR(AsHostError(MakeDirectories(record.staging_path)));
  const auto make = [&](const ReadyPlugin& node) {
    NodeStageVolumeRequest request;
    FillRequest(request, node, record, context);
    return request;
  };
  return calls_.Call<NodeStageVolumeRequest>(record.plugin, make, until).status();
}

// Removes what a reboot left of a target: the plugin makes the target (CSI 1.12), and may refuse one that exists. Never
// unmounts, because a mount made meanwhile has another owner.
absl::Status VolumeManager::RemoveBareTarget(const std::string& path, const PathInfo& target) {
  if (target.kind == PathInfo::Kind::kMissing) return absl::OkStatus();
  const bool old_device = target.kind == PathInfo::Kind::kBlockDevice;  // see IsPublished
  if (!target.empty && !old_device) {
    return FailedPrecondition("{} is not empty: a mount would hide its content; move the content away", Quote(path));
  }
  const bool directory = target.kind == PathInfo::Kind::kDirectory;
  if ((directory ? ::rmdir(path.c_str()) : ::unlink(path.c_str())) == 0 || errno == ENOENT) return absl::OkStatus();
  return ErrnoStatus(errno, "remove the leftover of an earlier mount at", path);
}

absl::Status VolumeManager::Publish(AttachmentRecord& record, const MountContext& context, Clock::time_point until) {
  MOORING_ASSIGN_OR_RETURN(PathInfo target, Inspect(record.target_path));
  const bool was_broken = IsBroken(target);
  if (was_broken) {
    MOORING_RETURN_IF_ERROR(UnmountBroken(record, until));
    MOORING_ASSIGN_OR_RETURN(target, Inspect(record.target_path));
  }
  if (IsPublished(record, target)) return EnsureReadOnly(record, target);
  MOORING_RETURN_IF_ERROR(AsHostError(MakeDirectories(std::string(ParentOf(record.target_path)))));
  MOORING_RETURN_IF_ERROR(AsHostError(RemoveBareTarget(record.target_path, target)));
  // Its mount is gone, as after a reboot. A plugin that keeps its targets on disk has it still: published again, it
  // would have it twice, and refuse to unstage the volume later.
  if (!record.boot.empty() && !was_broken) CallUnpublish(record, until).IgnoreError();
  const auto make = [&](const ReadyPlugin& node) {
    NodePublishVolumeRequest request;
    FillRequest(request, node, record, context);
    request.set_target_path(PathFor(node.instance, record.target_path));
    request.set_readonly(record.read_only);
    return request;
  };
  MOORING_RETURN_IF_ERROR(calls_.Call<NodePublishVolumeRequest>(record.plugin, make, until).status());
  record.boot = settings_.boot;
  return CheckArrived(record);
}

// Some plugins ignore NodePublishVolumeRequest::readonly. A mount is made read-only here. A device node cannot be: a
// read-only bind of it stops no write to the device.
absl::Status VolumeManager::EnsureReadOnly(const AttachmentRecord& record, const PathInfo& target) {
  if (!record.read_only) return absl::OkStatus();
  if (target.kind == PathInfo::Kind::kBlockDevice) {
    MOORING_ASSIGN_OR_RETURN(const bool read_only, IsReadOnlyDevice(record.target_path));
    if (read_only) return absl::OkStatus();
    return FailedPrecondition(
        "plugin {} published the device at {} writable, although it was asked for read-only: attach it for writing, or "
        "use a plugin that publishes devices read-only",
        Quote(record.plugin), Quote(record.target_path));
  }
  if (!target.mount || target.mount->flags.read_only || target.mount->superblock_read_only) return absl::OkStatus();
  MountFlags flags = target.mount->flags;
  flags.read_only = true;
  return Annotate(AsHostError(kernel_.Change({.target = record.target_path, .flags = flags})),
                  fmt::format("make the mount of plugin {} read-only", Quote(record.plugin)));
}

// A plugin in another mount namespace can answer OK although its mount is not seen here.
absl::Status VolumeManager::CheckArrived(const AttachmentRecord& record) {
  const absl::StatusOr<PathInfo> target = kernel_.Find(record.target_path);
  if (!target.ok()) return AsHostError(target.status());
  if (IsMountOrDevice(*target)) return EnsureReadOnly(record, *target);
  return FailedPrecondition(
      "plugin {} answered OK, but nothing is mounted at {} on this host: if the plugin runs in a container, bind {} "
      "into it at the same path with propagation rshared",
      Quote(record.plugin), Quote(record.target_path), Quote(settings_.root));
}

absl::Status VolumeManager::BindForUser(AttachmentRecord& record) {
  if (record.attach_path.empty()) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(const PathInfo target, kernel_.Find(record.target_path));
  MOORING_ASSIGN_OR_RETURN(PathInfo attached, Inspect(record.attach_path));
  if (IsBroken(attached)) {
    MOORING_RETURN_IF_ERROR(UnbindBroken(record, attached));
    MOORING_ASSIGN_OR_RETURN(attached, kernel_.Find(record.attach_path));
  }
  if (attached.mount && !IsSame(target, attached)) {
    return FailedPrecondition("something else is mounted at {} ({}): nothing is stacked on it",
                              Quote(record.attach_path), attached.mount->fs_type);
  }
  // Checked again, because after a reboot anybody could write to the bare directory since CheckAttachPath.
  if (!attached.mount && attached.kind != PathInfo::Kind::kMissing && !attached.empty) {
    return FailedPrecondition("{} is not empty: a mount would hide its content; move the content away",
                              Quote(record.attach_path));
  }
  if (!attached.mount) {
    const bool device = target.kind == PathInfo::Kind::kBlockDevice;
    BindRequest request{.source = record.target_path,
                        .target = record.attach_path,
                        .target_kind = device ? TargetKind::kFile : TargetKind::kDirectory,
                        .flags = target.mount ? target.mount->flags : MountFlags(),
                        .recursive = !device,
                        .propagation = record.propagation,
                        .group = std::nullopt,
                        .new_root = std::nullopt};
    request.flags.read_only = request.flags.read_only || record.read_only;
    MOORING_RETURN_IF_ERROR(kernel_.Bind(request));
    MOORING_ASSIGN_OR_RETURN(attached, kernel_.Find(record.attach_path));
  }
  record.attach_mount_id = attached.mount ? attached.mount->id : 0;
  return absl::OkStatus();
}

}  // namespace mooring::manager
