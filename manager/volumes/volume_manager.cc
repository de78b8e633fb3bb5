#include "manager/volumes/volume_manager.h"

#include <fmt/format.h>

#include <map>
#include <utility>

#include "base/file/path.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "manager/plugins/node_call.h"
#include "manager/records/names.h"
#include "manager/state/keys.h"
#include "manager/volumes/mounted.h"
#include "manager/volumes/node_volume.h"
#include "manager/volumes/volume_paths.h"

namespace mooring::manager {
namespace {

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

RetryPolicy AtAnyTime(RetryPolicy retry) {
  retry.may_call = RetryPolicy().may_call;
  return retry;
}

}  // namespace

VolumeManager::VolumeManager(PluginDirectory& plugins, Mounts& kernel, const MountJournal& journal, Events& events,
                             Settings settings)
    : plugins_(plugins),
      kernel_(kernel),
      journal_(journal),
      events_(events),
      settings_(std::move(settings)),
      calls_(plugins, settings_.retry),
      ending_calls_(plugins, AtAnyTime(settings_.retry)) {}

void VolumeManager::Stop() { locks_.Stop(Stopping()); }

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

absl::Status VolumeManager::Unmount(const AttachmentRecord& record, Clock::time_point until) {
  if (record.target_path.empty()) return absl::OkStatus();  // it was never sent to a plugin
  const auto hold = Lock(record.volume, until);
  const absl::Status status = hold.ok() ? UnmountLocked(record, until) : hold.status();
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
    MOORING_RETURN_IF_ERROR(UnmountBroken(record, until));
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
