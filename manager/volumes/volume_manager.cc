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

// One record for each filesystem that is in use, or staged: a writable one where there is one, for nothing is resized
// through a read-only mount that can be resized through another.
std::vector<AttachmentRecord> PlacesToExpand(const std::vector<AttachmentRecord>& records) {
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

// Of a record of an earlier program: a "ro" of its request was staged, too.
bool IsStagedReadOnly(const AttachmentRecord& record) {
  return !record.staged_as && (SaysReadOnly(record.options) || IsReader(record.capability.access));
}

bool CanShareStage(const AttachmentRecord& record, const AttachmentRecord& other) {
  if (other.staging_path.empty() || other.plugin != record.plugin || other.external_id != record.external_id ||
      other.capability.attachment != record.capability.attachment) {
    return false;
  }
  if (IsStagedReadOnly(other) && !record.read_only) return false;
  MountOptions staged = StagedAsOf(other).options;
  const MountOptions wanted = StagedAsOf(record).options;
  if (IsStagedReadOnly(other) && !SaysReadOnly(wanted)) std::erase(staged.flags, "ro");
  return AreEqual(staged, wanted);
}

}  // namespace

VolumeManager::VolumeManager(PluginDirectory& plugins, Mounts& kernel, const MountJournal& journal, Events& events,
                             Settings settings)
    : plugins_(plugins),
      kernel_(kernel),
      journal_(journal),
      events_(events),
      settings_(std::move(settings)),
      calls_(plugins, settings_.retry) {}

void VolumeManager::Stop() { locks_.Stop(Stopping()); }

absl::StatusOr<KeyedLocks::Hold> VolumeManager::Lock(const VolumeKey& volume, Clock::time_point until) {
  return locks_.Acquire(VolumeStateKey(volume), "volume", until);
}

void VolumeManager::Tell(const std::string& kind, const AttachmentRecord& record, const absl::Status& status) {
  if (absl::IsCancelled(status)) return;  // by the stop, and no failure
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

absl::Status VolumeManager::CheckPlace(AttachmentRecord& record) {
  if (record.attach_path.empty()) return absl::OkStatus();
  const std::string path = Quote(record.attach_path);
  if (IsBelowAny(record.attach_path, {settings_.root + "/staging", settings_.root + "/per-alloc"}) ||
      IsBelow(settings_.root, record.attach_path)) {
    return InvalidArgument(fmt::format("{} is where the manager stages and publishes: attach it elsewhere", path));
  }
  MOORING_ASSIGN_OR_RETURN(const PathInfo place, kernel_.Find(record.attach_path));
  record.made_attach_path = place.kind == PathInfo::Kind::kMissing;
  if (record.made_attach_path) {
    const std::string parent(ParentOf(record.attach_path));
    if (parent.empty() || parent == "/") return absl::OkStatus();
    MOORING_ASSIGN_OR_RETURN(const PathInfo above, kernel_.Find(parent));
    if (above.kind == PathInfo::Kind::kDirectory) return absl::OkStatus();
    return FailedPrecondition(fmt::format("{} is no directory: make it first", Quote(parent)));
  }
  if (place.mount) {
    return FailedPrecondition(
        fmt::format("something is mounted at {} already ({}): nothing is stacked on it", path, place.mount->fs_type));
  }
  const bool device = record.capability.attachment == AttachmentMode::kBlockDevice;
  if (place.kind != (device ? PathInfo::Kind::kRegular : PathInfo::Kind::kDirectory)) {
    return FailedPrecondition(
        fmt::format("{} has to be {}, or missing", path, device ? "an empty file" : "a directory"));
  }
  if (place.empty) return absl::OkStatus();
  return FailedPrecondition(fmt::format("{} is not empty: a mount would hide what is in it", path));
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

// Where it is staged already: an earlier program named the paths otherwise, and a plugin may keep one for each volume.
void VolumeManager::ChooseStage(AttachmentRecord& record) {
  record.staging_path = StagingPath(settings_.root, record.plugin, record.volume, record.external_id,
                                    record.capability.attachment, StagedAsOf(record).options);
  for (const AttachmentRecord& other : journal_.Of(record.volume)) {
    const bool same = other.allocation == record.allocation && other.request == record.request;
    if (same || !CanShareStage(record, other)) continue;
    record.staging_path = other.staging_path;
    record.staged_as = StagedAsOf(other);
    return;
  }
}

absl::Status VolumeManager::Mount(AttachmentRecord& record, const MountContext& context, Clock::time_point until) {
  const auto hold = Lock(record.volume, until);
  const absl::Status status = hold.ok() ? MountLocked(record, context, until) : hold.status();
  Tell("Mount volume", record, status);
  return status;
}

absl::Status VolumeManager::Unmount(const AttachmentRecord& record, Clock::time_point until) {
  if (record.target_path.empty()) return absl::OkStatus();  // no plugin was ever asked for it
  const auto hold = Lock(record.volume, until);
  const absl::Status status = hold.ok() ? UnmountLocked(record, until) : hold.status();
  Tell("Unmount volume", record, status);
  return status;
}

absl::StatusOr<PathInfo> VolumeManager::Look(const std::string& path) {
  absl::StatusOr<PathInfo> info = kernel_.Find(path);
  if (!info.ok()) return OfThisHost(info.status());
  servers_.Check(path, *info);
  return info;
}

absl::StatusOr<bool> VolumeManager::HasMount(const AttachmentRecord& record, Clock::time_point until) {
  if (record.target_path.empty()) return false;
  MOORING_RETURN_IF_ERROR(plugins_.WaitForNode(record.plugin, until).status());
  MOORING_ASSIGN_OR_RETURN(const KeyedLocks::Hold hold, Lock(record.volume, until));
  MOORING_ASSIGN_OR_RETURN(const PathInfo target, Look(record.target_path));
  if (IsBroken(target)) {
    MOORING_RETURN_IF_ERROR(TakeDownBroken(record, until));
    return false;
  }
  if (!IsThere(target) || record.attach_path.empty()) return IsThere(target);
  MOORING_ASSIGN_OR_RETURN(const PathInfo attached, Look(record.attach_path));
  return !IsBroken(attached) && IsSame(target, attached);
}

absl::StatusOr<bool> VolumeManager::Expand(const VolumeKey& volume, std::uint64_t bytes, const Secrets& secrets,
                                           Clock::time_point until) {
  MOORING_ASSIGN_OR_RETURN(const KeyedLocks::Hold hold, Lock(volume, until));
  bool any = false;
  for (const AttachmentRecord& record : PlacesToExpand(journal_.Of(volume))) {
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
