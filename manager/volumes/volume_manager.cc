#include "manager/volumes/volume_manager.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <string>
#include <utility>

#include "base/file/path.h"
#include "base/file/unique_fd.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "manager/csi/csi_volume.h"
#include "manager/plugins/node_call.h"
#include "manager/records/names.h"
#include "manager/state/keys.h"
#include "manager/volumes/volume_paths.h"

namespace mooring::manager {
namespace {

using csi::v1::NodePublishVolumeRequest;
using csi::v1::NodeStageVolumeRequest;

// Gives a record for each staged or published filesystem. Writable records go first, because a filesystem cannot be
// resized through a read-only mount. Read-only ones are used only if no record is writable.
std::vector<AttachmentRecord> FilesystemsToExpand(const std::vector<AttachmentRecord>& records) {
  std::map<std::string, AttachmentRecord> places;
  bool writable = false;
  for (const AttachmentRecord& record : records) {
    if (record.phase != AttachmentRecord::Phase::kMounted) continue;
    const std::string& path = record.staging_path.empty() ? record.target_path : record.staging_path;
    const auto [place, is_new] = places.try_emplace(path, record);
    if (!is_new && !record.read_only) place->second = record;
    writable = writable || !record.read_only;
  }
  std::vector<AttachmentRecord> chosen;
  for (const auto& [path, record] : places) {
    if (!writable || !record.read_only) chosen.push_back(record);
  }
  return chosen;
}

StagedAs StagedAsOf(const AttachmentRecord& record) {
  return record.staged_as.value_or(StagedAs{.access = record.capability.access, .options = record.options});
}

// A mount whose filesystem no longer answers (ENOTCONN, ESTALE and the like).
bool IsBroken(const PathInfo& info) { return info.mount && !info.failure.empty(); }

// RESOURCE_EXHAUSTED is reserved for the plugin, because it marks the volume. A host without room is
// FAILED_PRECONDITION.
absl::Status AsHostError(const absl::Status& status) {
  return absl::IsResourceExhausted(status) ? WithCode(absl::StatusCode::kFailedPrecondition, status) : status;
}

// The capability that node calls about a record send.
csi::v1::VolumeCapability CapabilityFor(const ReadyPlugin& node, const AttachmentRecord& record) {
  const bool finer = node.fingerprint.traits.node_single_writer;
  if (!record.staged_as) return ToCsi(record.capability, record.options, finer);
  const Capability capability = {.access = record.staged_as->access, .attachment = record.capability.attachment};
  return ToCsi(capability, record.staged_as->options, finer);
}

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

VolumeManager::VolumeManager(PluginDirectory& plugins, Mounts& kernel, const AttachmentJournal& journal, Events& events,
                             Settings settings)
    : plugins_(plugins),
      kernel_(kernel),
      journal_(journal),
      events_(events),
      settings_(std::move(settings)),
      calls_(plugins, settings_.retry),
      unmounter_(plugins, kernel, journal, settings_.root, settings_.retry) {}

absl::StatusOr<KeyedLocks::Hold> VolumeManager::Lock(const VolumeKey& volume, Clock::time_point until) {
  return locks_.Acquire(VolumeStateKey(volume), "volume", until);
}

void VolumeManager::Report(const std::string& kind, const AttachmentRecord& record, const absl::Status& status) {
  if (absl::IsCancelled(status)) return;  // the manager stops
  Event event;
  event.bad = !status.ok();
  event.kind = kind;
  event.plugin = record.plugin;
  event.volume = record.volume;
  event.allocation = record.allocation;
  event.text = status.ok() ? fmt::format("at {}", Quote(record.target_path)) : Message(status);
  if (status.ok() && !record.attach_path.empty()) event.text += fmt::format(" and {}", Quote(record.attach_path));
  events_.Add(std::move(event));
}

absl::Status VolumeManager::CheckAttachPath(AttachmentRecord& record) {
  if (record.attach_path.empty()) return absl::OkStatus();
  const std::string path = Quote(record.attach_path);
  if (IsBelowAny(record.attach_path, {settings_.root + "/staging", settings_.root + "/per-alloc"}) ||
      IsBelow(settings_.root, record.attach_path)) {
    return InvalidArgument("{} is in the directory where the manager stages and publishes: choose another path", path);
  }
  MOORING_ASSIGN_OR_RETURN(const PathInfo place, kernel_.Find(record.attach_path));
  record.made_attach_path = place.kind == PathInfo::Kind::kMissing;
  if (record.made_attach_path) {
    const std::string parent(ParentOf(record.attach_path));
    if (parent.empty() || parent == "/") return absl::OkStatus();
    MOORING_ASSIGN_OR_RETURN(const PathInfo above, kernel_.Find(parent));
    if (above.kind == PathInfo::Kind::kDirectory) return absl::OkStatus();
    return FailedPrecondition("{} is not a directory: create it first", Quote(parent));
  }
  if (place.mount) {
    return FailedPrecondition("something is mounted at {} already ({}): nothing is stacked on it", path,
                              place.mount->fs_type);
  }
  const bool device = record.capability.attachment == AttachmentMode::kBlockDevice;
  if (place.kind != (device ? PathInfo::Kind::kRegular : PathInfo::Kind::kDirectory)) {
    return FailedPrecondition("{} has to be {}, or must not exist", path, device ? "an empty file" : "a directory");
  }
  if (place.empty) return absl::OkStatus();
  return FailedPrecondition("{} is not empty: a mount would hide its content; move the content away", path);
}

absl::Status VolumeManager::Prepare(AttachmentRecord& record, Clock::time_point until) {
  MOORING_ASSIGN_OR_RETURN(const ReadyPlugin node, plugins_.WaitForNode(record.plugin, until));
  if (record.external_node_id.empty()) record.external_node_id = node.fingerprint.node_id;
  record.usage = UsageName(record.read_only, record.capability);
  record.staging_path.clear();
  if (node.fingerprint.traits.stages) ChooseStage(record);
  record.target_path = TargetPath(settings_.root, record.allocation, record.request, record.volume, record.usage);
  record.source = record.target_path;
  record.is_device = record.capability.attachment == AttachmentMode::kBlockDevice;
  return absl::OkStatus();
}

// All users of a staging path send the capability with which it was staged, because a plugin may refuse another one.
void VolumeManager::ChooseStage(AttachmentRecord& record) {
  record.staging_path = StagingPath(settings_.root, record.plugin, record.volume, record.external_id,
                                    record.capability.attachment, StagedAsOf(record).options);
  for (const AttachmentRecord& other : journal_.Of(record.volume)) {
    const bool is_self = other.allocation == record.allocation && other.request == record.request;
    if (is_self || other.staging_path != record.staging_path) continue;
    record.staged_as = StagedAsOf(other);
    return;
  }
}

absl::Status VolumeManager::Mount(AttachmentRecord& record, const MountContext& context, Clock::time_point until) {
  const auto hold = Lock(record.volume, until);
  const absl::Status status = hold.ok() ? MountLocked(record, context, until) : hold.status();
  Report("Mount volume", record, status);
  return status;
}

absl::Status VolumeManager::MountLocked(AttachmentRecord& record, const MountContext& context,
                                        Clock::time_point until) {
  MOORING_RETURN_IF_ERROR(CheckAwaited(context.is_abandoned));
  const absl::Status staged = Stage(record, context, until);
  if (IsRefusal(staged)) unmounter_.UndoRefusedStage(record, until);
  MOORING_RETURN_IF_ERROR(Annotate(staged, "stage volume " + ToString(record.volume)));
  MOORING_RETURN_IF_ERROR(Annotate(Publish(record, context, until), "publish volume " + ToString(record.volume)));
  return Annotate(AsHostError(BindForUser(record)), "bind volume " + ToString(record.volume));
}

absl::Status VolumeManager::Stage(const AttachmentRecord& record, const MountContext& context,
                                  Clock::time_point until) {
  if (record.staging_path.empty()) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(const PathInfo staged, Inspect(record.staging_path));
  if (IsBroken(staged)) {
    MOORING_RETURN_IF_ERROR(unmounter_.UnmountBrokenStage(record, until));
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
    MOORING_RETURN_IF_ERROR(unmounter_.UnmountBroken(record, until));
    MOORING_ASSIGN_OR_RETURN(target, Inspect(record.target_path));
  }
  if (IsPublished(record, target)) return EnsureReadOnly(record, target);
  MOORING_RETURN_IF_ERROR(AsHostError(MakeDirectories(std::string(ParentOf(record.target_path)))));
  MOORING_RETURN_IF_ERROR(AsHostError(RemoveBareTarget(record.target_path, target)));
  // Its mount is gone, as after a reboot. A plugin that keeps its targets on disk has it still: published again, it
  // would have it twice, and refuse to unstage the volume later.
  if (!record.boot.empty() && !was_broken) unmounter_.CallUnpublish(record, until).IgnoreError();
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
    MOORING_RETURN_IF_ERROR(unmounter_.UnbindBroken(record, attached));
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

absl::Status VolumeManager::Unmount(const AttachmentRecord& record, Clock::time_point until) {
  if (record.target_path.empty()) return absl::OkStatus();  // it was never sent to a plugin
  const auto hold = Lock(record.volume, until);
  const absl::Status status = hold.ok() ? unmounter_.Unmount(record, until) : hold.status();
  Report("Unmount volume", record, status);
  return status;
}

absl::StatusOr<PathInfo> VolumeManager::Inspect(const std::string& path) {
  absl::StatusOr<PathInfo> info = kernel_.Find(path);
  if (!info.ok()) return AsHostError(info.status());
  servers_.Check(path, *info);
  return info;
}

// A device node survives a reboot on a disk, but its device number may belong to another device then. So only a node
// that was published in this boot counts.
bool VolumeManager::IsPublished(const AttachmentRecord& record, const PathInfo& target) const {
  return target.mount || (target.kind == PathInfo::Kind::kBlockDevice && record.boot == settings_.boot);
}

absl::StatusOr<bool> VolumeManager::HasMount(const AttachmentRecord& record, Clock::time_point until) {
  if (record.target_path.empty()) return false;
  MOORING_RETURN_IF_ERROR(plugins_.WaitForNode(record.plugin, until).status());
  MOORING_ASSIGN_OR_RETURN(const KeyedLocks::Hold hold, Lock(record.volume, until));
  MOORING_ASSIGN_OR_RETURN(const PathInfo target, Inspect(record.target_path));
  if (IsBroken(target)) {
    MOORING_RETURN_IF_ERROR(unmounter_.UnmountBroken(record, until));
    return false;
  }
  if (!IsPublished(record, target) || record.attach_path.empty()) return IsPublished(record, target);
  MOORING_ASSIGN_OR_RETURN(const PathInfo attached, Inspect(record.attach_path));
  return !IsBroken(attached) && IsSame(target, attached);
}

absl::StatusOr<bool> VolumeManager::Expand(const VolumeKey& volume, std::uint64_t bytes, const Secrets& secrets,
                                           Clock::time_point until) {
  MOORING_ASSIGN_OR_RETURN(const KeyedLocks::Hold hold, Lock(volume, until));
  bool any = false;
  for (const AttachmentRecord& record : FilesystemsToExpand(journal_.Of(volume))) {
    MOORING_ASSIGN_OR_RETURN(const bool expanded, ExpandAt(record, bytes, secrets, until));
    any = any || expanded;
  }
  return any;
}

absl::StatusOr<bool> VolumeManager::ExpandMounted(const AttachmentRecord& record, std::uint64_t bytes,
                                                  const Secrets& secrets, Clock::time_point until) {
  if (record.read_only) return false;
  MOORING_ASSIGN_OR_RETURN(const KeyedLocks::Hold hold, Lock(record.volume, until));
  return ExpandAt(record, bytes, secrets, until);
}

absl::StatusOr<bool> VolumeManager::ExpandAt(const AttachmentRecord& record, std::uint64_t bytes,
                                             const Secrets& secrets, Clock::time_point until) {
  MOORING_ASSIGN_OR_RETURN(const ReadyPlugin plugin, plugins_.WaitForNode(record.plugin, until));
  if (!plugin.fingerprint.traits.node_expands) return false;
  const auto make = [&](const ReadyPlugin& node) {
    csi::v1::NodeExpandVolumeRequest request;
    request.set_volume_id(IdForPlugin(record));
    request.set_volume_path(PathFor(node.instance, record.target_path));
    if (!record.staging_path.empty()) {
      request.set_staging_target_path(PathFor(node.instance, record.staging_path));
    }
    request.mutable_capacity_range()->set_required_bytes(static_cast<std::int64_t>(bytes));
    *request.mutable_volume_capability() = CapabilityFor(node, record);
    secrets.CopyTo(*request.mutable_secrets());
    return request;
  };
  const absl::Status status = calls_.Call<csi::v1::NodeExpandVolumeRequest>(record.plugin, make, until).status();
  if (absl::IsNotFound(status)) return false;
  if (!status.ok()) return Annotate(status, "expand volume " + ToString(record.volume) + " on this host");
  return true;
}

}  // namespace mooring::manager
