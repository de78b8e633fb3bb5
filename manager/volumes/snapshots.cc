#include <fmt/format.h>

#include <map>
#include <set>
#include <utility>

#include "base/status.h"
#include "base/text/quote.h"
#include "manager/csi/csi_volume.h"
#include "manager/plugins/controller_call.h"
#include "manager/records/names.h"
#include "manager/state/keys.h"
#include "manager/volumes/volumes.h"

namespace mooring::manager {
namespace {

constexpr int kSnapshotsOfPage = 500;  // a page has to fit into the answer of a request to another host, 1 MiB

Snapshot FromCsi(const std::string& plugin, const csi::v1::Snapshot& message) {
  Snapshot snapshot;
  snapshot.id = message.snapshot_id();
  snapshot.plugin = plugin;
  snapshot.source_volume_id = message.source_volume_id();
  snapshot.bytes = static_cast<std::uint64_t>(message.size_bytes());
  snapshot.made_at =
      Time(std::chrono::duration_cast<Time::duration>(std::chrono::seconds(message.creation_time().seconds()) +
                                                      std::chrono::nanoseconds(message.creation_time().nanos())));
  snapshot.ready = message.ready_to_use();
  return snapshot;
}

}  // namespace

absl::StatusOr<PluginTraits> Volumes::SnapshotTraits(const std::string& plugin, Clock::time_point until) {
  MOORING_ASSIGN_OR_RETURN(PluginTraits traits, Controller(plugin, until));
  if (traits.snapshots) return traits;
  return FailedPrecondition("plugin {} has no snapshots", Quote(plugin));
}

absl::StatusOr<Snapshot> Volumes::CreateSnapshot(const VolumeKey& key, const std::string& name,
                                                 const StringMap& parameters, Clock::time_point until) {
  MOORING_RETURN_IF_ERROR(CheckName("snapshot name", name));
  MOORING_ASSIGN_OR_RETURN(const KeyedLocks::Hold hold, LockController(controller_locks_, key, until));
  MOORING_ASSIGN_OR_RETURN(const Volume volume, GetReady(key));
  MOORING_RETURN_IF_ERROR(SnapshotTraits(volume.plugin, until).status());
  csi::v1::CreateSnapshotRequest request;
  request.set_source_volume_id(IdForPlugin(volume));
  request.set_name(name);
  request.mutable_parameters()->insert(parameters.begin(), parameters.end());
  volume.secrets.CopyTo(*request.mutable_secrets());
  MOORING_ASSIGN_OR_RETURN(const auto answer, CallController(plugins_, ControllerFor(volume), request, retry_, until));
  Snapshot snapshot = FromCsi(volume.plugin, answer.snapshot());
  snapshot.source = key;
  Report(volume, false, fmt::format("snapshot {} taken", Quote(snapshot.id)));
  return snapshot;
}

absl::Status Volumes::DeleteSnapshot(const std::string& plugin, const std::string& snapshot_id, const Secrets& secrets,
                                     Clock::time_point until) {
  if (snapshot_id.empty()) return InvalidArgument("the snapshot id is missing");
  MOORING_RETURN_IF_ERROR(SnapshotTraits(plugin, until).status());
  csi::v1::DeleteSnapshotRequest request;
  request.set_snapshot_id(snapshot_id);
  secrets.CopyTo(*request.mutable_secrets());
  ControllerFor controller(plugin);
  controller.is_known = true;
  const absl::Status status = CallController(plugins_, controller, request, retry_, until).status();
  return absl::IsNotFound(status) ? absl::OkStatus() : status;
}

absl::Status Volumes::CheckSnapshotExists(const std::string& plugin, const std::string& snapshot_id,
                                          const Secrets& secrets, Clock::time_point until) {
  if (snapshot_id.empty()) return InvalidArgument("the snapshot id is missing");
  MOORING_ASSIGN_OR_RETURN(const PluginTraits traits, SnapshotTraits(plugin, until));
  if (!traits.lists_snapshots) return absl::OkStatus();
  csi::v1::ListSnapshotsRequest request;
  request.set_snapshot_id(snapshot_id);
  secrets.CopyTo(*request.mutable_secrets());
  const auto found = CallController(plugins_, plugin, request, retry_, until);
  if (!found.ok() || !found->entries().empty()) return absl::OkStatus();
  return NotFound("plugin {} has no snapshot {}: 'mooring volume snapshot list --plugin {}' lists them", Quote(plugin),
                  Quote(snapshot_id), plugin);
}

absl::StatusOr<std::vector<Snapshot>> Volumes::ListSnapshots(const std::string& plugin, Clock::time_point until) {
  MOORING_ASSIGN_OR_RETURN(const PluginTraits traits, SnapshotTraits(plugin, until));
  if (!traits.lists_snapshots) return FailedPrecondition("plugin {} does not list its snapshots", Quote(plugin));
  MOORING_ASSIGN_OR_RETURN(const std::vector<Volume> volumes, store_.ListVolumes());
  std::map<std::string, VolumeKey> keys;
  for (const Volume& volume : volumes) {
    if (volume.plugin == plugin) keys.emplace(IdForPlugin(volume), volume.key);
  }
  std::vector<Snapshot> snapshots;
  std::set<std::string> seen;  // page tokens
  csi::v1::ListSnapshotsRequest request;
  request.set_max_entries(kSnapshotsOfPage);
  do {
    MOORING_ASSIGN_OR_RETURN(const auto page, CallController(plugins_, plugin, request, retry_, until));
    for (const auto& entry : page.entries()) {
      snapshots.push_back(FromCsi(plugin, entry.snapshot()));
      const auto source = keys.find(snapshots.back().source_volume_id);
      if (source != keys.end()) snapshots.back().source = source->second;
    }
    if (!seen.insert(page.next_token()).second) break;  // a token that came before would repeat the pages for ever
    request.set_starting_token(page.next_token());
  } while (!request.starting_token().empty());
  return snapshots;
}

}  // namespace mooring::manager
