// Stage, publish, bind: each only where the kernel does not have it.
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "base/file/path.h"
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

// What stage and publish have in common.
template <typename Request>
void Fill(Request& request, const ReadyPlugin& node, const AttachmentRecord& record, const MountContext& context) {
  request.set_volume_id(IdForPlugin(record));
  request.mutable_publish_context()->insert(context.publish_context.begin(), context.publish_context.end());
  request.mutable_volume_context()->insert(context.volume_context.begin(), context.volume_context.end());
  if (!record.staging_path.empty()) request.set_staging_target_path(PathFor(node.instance, record.staging_path));
  *request.mutable_volume_capability() = CapabilityFor(node, record);
  context.secrets.CopyTo(*request.mutable_secrets());
}

}  // namespace

absl::Status VolumeManager::MountLocked(AttachmentRecord& record, const MountContext& context,
                                        Clock::time_point until) {
  MOORING_RETURN_IF_ERROR(Annotate(Stage(record, context, until), "stage volume " + ToString(record.volume)));
  MOORING_RETURN_IF_ERROR(Annotate(Publish(record, context, until), "publish volume " + ToString(record.volume)));
  return Annotate(OfThisHost(BindForUser(record)), "bind volume " + ToString(record.volume));
}

absl::Status VolumeManager::Stage(const AttachmentRecord& record, const MountContext& context,
                                  Clock::time_point until) {
  if (record.staging_path.empty()) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(const PathInfo staged, Look(record.staging_path));
  if (IsBroken(staged)) {
    MOORING_RETURN_IF_ERROR(TakeDownBrokenStage(record, until));
  } else if (staged.mount) {
    return absl::OkStatus();
  }
  MOORING_RETURN_IF_ERROR(OfThisHost(MakeDirectories(record.staging_path)));
  const auto make = [&](const ReadyPlugin& node) {
    NodeStageVolumeRequest request;
    Fill(request, node, record, context);
    return request;
  };
  return calls_.Call<NodeStageVolumeRequest>(record.plugin, make, until).status();
}

// Left of a mount that a reboot ended. The plugin makes the target anew, and drivers may refuse one that is there.
// Never unmounts: what was mounted meanwhile is somebody's.
absl::Status VolumeManager::RemoveBareTarget(const std::string& path) {
  MOORING_ASSIGN_OR_RETURN(const PathInfo bare, kernel_.Find(path));
  if (bare.kind == PathInfo::Kind::kMissing) return absl::OkStatus();
  if (!bare.empty) {
    return FailedPrecondition(
        fmt::format("{} is not empty: a mount would hide what is in it; move that away", Quote(path)));
  }
  const bool directory = bare.kind == PathInfo::Kind::kDirectory;
  if ((directory ? ::rmdir(path.c_str()) : ::unlink(path.c_str())) == 0 || errno == ENOENT) return absl::OkStatus();
  return ErrnoStatus(errno, "remove what an earlier mount left at", path);
}

absl::Status VolumeManager::Publish(const AttachmentRecord& record, const MountContext& context,
                                    Clock::time_point until) {
  MOORING_ASSIGN_OR_RETURN(const PathInfo published, Look(record.target_path));
  if (IsBroken(published)) {
    MOORING_RETURN_IF_ERROR(TakeDownBroken(record, until));
  } else if (IsThere(published)) {
    return absl::OkStatus();
  }
  MOORING_RETURN_IF_ERROR(OfThisHost(MakeDirectories(std::string(ParentOf(record.target_path)))));
  MOORING_RETURN_IF_ERROR(OfThisHost(RemoveBareTarget(record.target_path)));
  const auto make = [&](const ReadyPlugin& node) {
    NodePublishVolumeRequest request;
    Fill(request, node, record, context);
    request.set_target_path(PathFor(node.instance, record.target_path));
    request.set_readonly(record.read_only);
    return request;
  };
  MOORING_RETURN_IF_ERROR(calls_.Call<NodePublishVolumeRequest>(record.plugin, make, until).status());
  return CheckArrived(record);
}

// A plugin in a mount namespace of its own can say OK, and nothing of it is seen here.
absl::Status VolumeManager::CheckArrived(const AttachmentRecord& record) {
  const absl::StatusOr<PathInfo> target = kernel_.Find(record.target_path);
  if (!target.ok()) return OfThisHost(target.status());
  if (IsThere(*target)) return absl::OkStatus();
  return FailedPrecondition(
      fmt::format("plugin {} says that it published the volume, but nothing is mounted at {} on this host: where the "
                  "plugin is a container, {} has to be bound into it with propagation rshared, at the same path",
                  Quote(record.plugin), Quote(record.target_path), Quote(settings_.root)));
}

absl::Status VolumeManager::BindForUser(AttachmentRecord& record) {
  if (record.attach_path.empty()) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(const PathInfo target, kernel_.Find(record.target_path));
  MOORING_ASSIGN_OR_RETURN(PathInfo attached, Look(record.attach_path));
  if (IsBroken(attached)) {
    MOORING_RETURN_IF_ERROR(UnbindBroken(record, attached));
    MOORING_ASSIGN_OR_RETURN(attached, kernel_.Find(record.attach_path));
  }
  if (attached.mount && !IsSame(target, attached)) {
    return FailedPrecondition(fmt::format("something else is mounted at {} ({}): nothing is stacked on it",
                                          Quote(record.attach_path), attached.mount->fs_type));
  }
  // Looked at again, for it may be long ago that CheckPlace did: since a reboot the bare directory was open to all.
  if (!attached.mount && attached.kind != PathInfo::Kind::kMissing && !attached.empty) {
    return FailedPrecondition(
        fmt::format("{} is not empty: a mount would hide what is in it; move that away", Quote(record.attach_path)));
  }
  if (!attached.mount) {
    const bool device = target.kind == PathInfo::Kind::kBlockDevice;
    BindRequest request{.source = record.target_path,
                        .target = record.attach_path,
                        .target_kind = device ? TargetKind::kFile : TargetKind::kDirectory,
                        .flags = target.mount ? target.mount->flags : MountFlags(),
                        .recursive = !device,
                        .propagation = record.propagation,
                        .group = std::nullopt};
    request.flags.read_only = request.flags.read_only || record.read_only;
    MOORING_RETURN_IF_ERROR(kernel_.Bind(request));
    MOORING_ASSIGN_OR_RETURN(attached, kernel_.Find(record.attach_path));
  }
  record.attach_mount_id = attached.mount ? attached.mount->id : 0;
  return absl::OkStatus();
}

}  // namespace mooring::manager
