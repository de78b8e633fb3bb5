#include "manager/volumes/snapshots.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/status.h"
#include "base/text/quote.h"
#include "base/text/terminal_text.h"
#include "manager/claims/claim_rules.h"
#include "manager/csi/csi_volume.h"
#include "manager/records/names.h"
#include "manager/state/keys.h"
#include "manager/volumes/volume_records.h"

namespace mooring::manager {
namespace {

constexpr std::chrono::seconds kAttempt{20};  // for one try in the background, which holds the lock of the volume
constexpr std::chrono::minutes kWanted{5};    // a later snapshot would have another content than its user expects

Snapshot Wanted(const Volume& source, const std::string& name, const StringMap& parameters, const std::string& worker) {
  Snapshot snapshot;
  snapshot.plugin = source.plugin;
  snapshot.name = name;
  snapshot.source = source.key;
  snapshot.source_volume_id = IdForPlugin(source);
  snapshot.parameters = parameters;
  snapshot.topologies = ControllerFor(source).reaches;
  snapshot.worker = worker;
  snapshot.made_at = std::chrono::system_clock::now();  // until the plugin tells when it was taken
  return snapshot;
}

// While a snapshot is being taken, its first parameters count. After that the plugin decides.
absl::Status CheckParameters(Snapshot& there, const StringMap& asked) {
  if (there.id.empty() && there.parameters != asked) {
    return AlreadyExists("snapshot {} is being taken with other parameters: delete it first", Quote(there.name));
  }
  there.parameters = asked;
  return absl::OkStatus();
}

// Whether a controller that was asked knows the snapshot, if it exists.
bool IsAt(const std::vector<ControllerFor>& places, const Snapshot& snapshot) {
  return std::any_of(places.begin(), places.end(), [&](const ControllerFor& place) {
    return place.reaches.empty() ? snapshot.topologies.empty()
                                 : IsReachable(snapshot.topologies, place.reaches.front().segments);
  });
}

}  // namespace

Snapshots::Snapshots(RecordsStore& store, PluginDirectory& plugins, HostDirectory& hosts, KeyedLocks& controller_locks,
                     Events& events, WorkQueue& queue, RetryPolicy retry)
    : store_(store),
      at_plugins_(plugins, std::move(retry)),
      hosts_(hosts),
      controller_locks_(controller_locks),
      events_(events),
      work_(queue, {.kind = "snapshot"}) {}

absl::StatusOr<Snapshot> Snapshots::Create(const VolumeKey& key, const std::string& name, const StringMap& parameters,
                                           Clock::time_point until) {
  MOORING_RETURN_IF_ERROR(CheckName("snapshot name", name));
  MOORING_ASSIGN_OR_RETURN(const KeyedLocks::Hold hold, LockController(controller_locks_, key, until));
  MOORING_ASSIGN_OR_RETURN(const Volume source, store_.GetVolume(key));
  MOORING_RETURN_IF_ERROR(CheckReady(source));
  MOORING_RETURN_IF_ERROR(CheckSecrets(source));
  MOORING_RETURN_IF_ERROR(at_plugins_.Traits(ControllerFor(source), until).status());
  Snapshot wanted = Wanted(source, name, parameters, hosts_.self());
  auto there = store_.GetSnapshot(wanted);
  if (!there.ok() && !absl::IsNotFound(there.status())) return there.status();
  const bool is_new = !there.ok();
  if (is_new) {
    MOORING_ASSIGN_OR_RETURN(const std::int64_t revision, store_.Commit(Changes().Put(wanted)));
    wanted.revisions.SetStored(revision);
  } else {
    wanted = *std::move(there);
    MOORING_RETURN_IF_ERROR(CheckParameters(wanted, parameters));
  }
  const PluginSnapshots::Taken taken = at_plugins_.Take(wanted, source.secrets, until);
  if (taken.answer.ok()) return Complete(wanted, taken.answer->snapshot());
  const absl::Status& why = taken.answer.status();
  if (!wanted.id.empty()) return why;  // an earlier request has taken it
  if (is_new && taken.none) return ForgetOr(wanted, why);
  FinishLater(wanted, why);
  return Annotate(why,
                  fmt::format("it is unknown whether snapshot {} was taken. For {} minutes the manager goes on until "
                              "it is, and after that it undoes it: 'mooring volume snapshot list --plugin {}' "
                              "shows it",
                              Quote(name), kWanted.count(), source.plugin));
}

absl::StatusOr<Snapshot> Snapshots::Complete(const Snapshot& record, const csi::v1::Snapshot& taken) {
  if (taken.snapshot_id().empty()) {
    return Internal("CreateSnapshot of plugin {} answered without a snapshot id", Quote(record.plugin));
  }
  Snapshot snapshot = record;
  CopyFromCsi(taken, snapshot);
  snapshot.source_volume_id = record.source_volume_id;  // it is a part of the key
  snapshot.worker.clear();
  if (snapshot == record) return snapshot;
  for (;;) {
    const auto revision = store_.Commit(Changes().Put(snapshot));
    if (revision.ok()) {
      snapshot.revisions.SetStored(*revision);
      break;
    }
    if (!absl::IsAborted(revision.status())) return revision.status();
    MOORING_ASSIGN_OR_RETURN(const Snapshot now, store_.GetSnapshot(record));  // another host was faster
    if (now.id == snapshot.id) return now;
    snapshot.revisions = now.revisions;
  }
  if (record.id != snapshot.id) {
    events_.Add({.kind = "volume",
                 .plugin = snapshot.plugin,
                 .volume = snapshot.source.value_or(VolumeKey()),
                 .text = fmt::format("snapshot {} taken", Quote(snapshot.id))});
  }
  return snapshot;
}

// The plugin has not taken it. ABORTED: another host works at the record.
absl::Status Snapshots::ForgetOr(const Snapshot& record, const absl::Status& why) {
  const absl::Status deleted = store_.Commit(Changes().Delete(record)).status();
  if (deleted.ok() || absl::IsAborted(deleted)) return why;
  FinishLater(record, deleted);
  return Annotate(why, fmt::format("the manager cannot forget snapshot {}, and will take it later ({})",
                                   Quote(record.name), Message(deleted)));
}

void Snapshots::FinishLater(const Snapshot& record, const absl::Status& problem) {
  work_.Push({.key = fmt::format("{} of volume {} of plugin {}", Quote(record.name), Quote(record.source_volume_id),
                                 Quote(record.plugin)),
              .lane = record.plugin,
              .attempt = [this, record] { return FinishOne(record); },
              .problem = Message(problem)},
             problem.ok() ? Clock::duration() : std::chrono::seconds(1));
}

absl::Status Snapshots::FinishOne(const Snapshot& record) {
  const Clock::time_point until = Clock::now() + kAttempt;
  const VolumeKey source = record.source.value_or(VolumeKey());
  MOORING_ASSIGN_OR_RETURN(const KeyedLocks::Hold hold, LockController(controller_locks_, source, until));
  const auto now = store_.GetSnapshot(record);
  if (absl::IsNotFound(now.status())) return absl::OkStatus();
  MOORING_RETURN_IF_ERROR(now.status());
  if (!now->id.empty() || now->revisions.create != record.revisions.create) return absl::OkStatus();
  const bool is_wanted = std::chrono::system_clock::now() - now->made_at < kWanted;
  return is_wanted ? Finish(*now, until) : Undo(*now, Secrets(), until);
}

absl::Status Snapshots::Finish(const Snapshot& record, Clock::time_point until) {
  MOORING_ASSIGN_OR_RETURN(const Secrets secrets, SecretsOf(record));
  MOORING_ASSIGN_OR_RETURN(const auto answer, at_plugins_.Take(record, secrets, until).answer);
  const auto completed = Complete(record, answer.snapshot());
  if (!absl::IsNotFound(completed.status())) return completed.status();
  return at_plugins_.Delete(ControllerOf(record), answer.snapshot().snapshot_id(), secrets,
                            until);  // it was deleted meanwhile
}

// A repeated CreateSnapshot tells the id for DeleteSnapshot.
absl::Status Snapshots::Undo(const Snapshot& record, const Secrets& given, Clock::time_point until) {
  MOORING_ASSIGN_OR_RETURN(const Secrets of_volume, SecretsOf(record));
  const Secrets& secrets = given.empty() ? of_volume : given;
  const PluginSnapshots::Taken taken = at_plugins_.Take(record, secrets, until);
  if (!taken.answer.ok()) {
    return Annotate(
        taken.answer.status(),
        fmt::format("it is unknown whether the plugin has snapshot {} of volume {}; 'mooring volume snapshot "
                    "delete --forget' drops the record alone",
                    Quote(record.name), Quote(record.source_volume_id)));
  }
  MOORING_RETURN_IF_ERROR(
      at_plugins_.Delete(ControllerOf(record), taken.answer->snapshot().snapshot_id(), secrets, until));
  return Forget(record);
}

// Without a volume there are none. The plugin knows a snapshot that it has taken before also without its volume.
absl::StatusOr<Secrets> Snapshots::SecretsOf(const Snapshot& snapshot) {
  if (!snapshot.source) return Secrets();
  const auto volume = store_.GetVolume(*snapshot.source);
  if (absl::IsNotFound(volume.status())) return Secrets();
  MOORING_RETURN_IF_ERROR(volume.status());
  MOORING_RETURN_IF_ERROR(CheckSecrets(*volume));
  return volume->secrets;
}

// A snapshot that is being taken has no id yet, so its name stands for it.
absl::StatusOr<std::optional<Snapshot>> Snapshots::Find(const std::string& plugin, const std::string& id) {
  if (id.empty()) return InvalidArgument("the snapshot id is missing");
  MOORING_ASSIGN_OR_RETURN(const std::vector<Snapshot> records, store_.ListSnapshots(plugin));
  std::vector<Snapshot> named;
  for (const Snapshot& record : records) {
    if (record.id == id) return record;
    if (record.id.empty() && record.name == id) named.push_back(record);
  }
  if (named.size() > 1)
    return FailedPrecondition("snapshots {} of {} volumes are being taken", Quote(id), named.size());
  if (!named.empty()) return named.front();
  MOORING_RETURN_IF_ERROR(store_.CheckReadable(SnapshotsPrefix(plugin)));
  return std::nullopt;
}

absl::StatusOr<std::vector<Topology>> Snapshots::TopologiesOf(const std::string& plugin, const std::string& id) {
  MOORING_ASSIGN_OR_RETURN(const auto record, Find(plugin, id));
  return record ? record->topologies : std::vector<Topology>();
}

absl::Status Snapshots::Delete(const std::string& plugin, const std::string& id, const Secrets& secrets,
                               Clock::time_point until) {
  MOORING_ASSIGN_OR_RETURN(const auto found, Find(plugin, id));
  if (!found) return at_plugins_.DeleteEverywhere(plugin, id, secrets, until);
  const VolumeKey source = found->source.value_or(VolumeKey());
  MOORING_ASSIGN_OR_RETURN(const KeyedLocks::Hold hold, LockController(controller_locks_, source, until));
  const auto record = store_.GetSnapshot(*found);
  if (absl::IsNotFound(record.status())) return absl::OkStatus();
  MOORING_RETURN_IF_ERROR(record.status());
  if (record->id.empty()) return Undo(*record, secrets, until);
  MOORING_RETURN_IF_ERROR(at_plugins_.Delete(ControllerOf(*record), record->id, secrets, until));
  return Forget(*record);
}

absl::Status Snapshots::DropRecord(const std::string& plugin, const std::string& id) {
  MOORING_ASSIGN_OR_RETURN(const auto record, Find(plugin, id));
  return record ? Forget(*record) : NotFound("the manager has no record of snapshot {}", Quote(id));
}

absl::Status Snapshots::Forget(const Snapshot& snapshot) {
  for (;;) {
    const auto record = store_.GetSnapshot(snapshot);
    if (absl::IsNotFound(record.status())) return absl::OkStatus();
    MOORING_RETURN_IF_ERROR(record.status());
    if (record->revisions.create != snapshot.revisions.create || record->id != snapshot.id) return absl::OkStatus();
    const absl::Status forgotten = store_.Commit(Changes().Delete(*record)).status();
    if (!absl::IsAborted(forgotten)) return forgotten;
  }
}

absl::Status Snapshots::CheckExists(const std::string& plugin, const std::string& id, const Secrets& secrets,
                                    Clock::time_point until) {
  MOORING_ASSIGN_OR_RETURN(const auto record, Find(plugin, id));
  return record ? absl::OkStatus() : at_plugins_.CheckExists(plugin, id, secrets, until);
}

absl::StatusOr<SnapshotList> Snapshots::List(const std::string& plugin, Clock::time_point until) {
  SnapshotList list;
  std::vector<Snapshot>& snapshots = list.snapshots;
  MOORING_ASSIGN_OR_RETURN(snapshots, store_.ListSnapshots(plugin));
  PluginSnapshots::Listed listed = at_plugins_.List(plugin, snapshots.empty(), until);
  if (listed.asked.empty() && snapshots.empty()) return listed.problem;
  for (Snapshot& record : snapshots) {
    const auto here = listed.snapshots.find(record.id);
    record.is_unlisted = here == listed.snapshots.end() && !record.id.empty() && IsAt(listed.asked, record);
    if (here == listed.snapshots.end()) continue;
    record.ready = here->second.ready;
    listed.snapshots.erase(here);
  }
  MOORING_RETURN_IF_ERROR(AddWithSources(listed.snapshots, snapshots));
  list.problem = Message(listed.problem);
  return list;
}

// The volumes tell the keys of the sources.
absl::Status Snapshots::AddWithSources(std::map<std::string, Snapshot>& listed, std::vector<Snapshot>& snapshots) {
  std::map<std::pair<std::string, std::string>, VolumeKey> keys;
  MOORING_ASSIGN_OR_RETURN(const std::vector<Volume> volumes, store_.ListVolumes());
  for (const Volume& volume : volumes) keys.emplace(std::pair(volume.plugin, IdForPlugin(volume)), volume.key);
  for (auto& [id, snapshot] : listed) {
    const auto source = keys.find({snapshot.plugin, snapshot.source_volume_id});
    if (source != keys.end()) snapshot.source = source->second;
    snapshots.push_back(std::move(snapshot));
  }
  return absl::OkStatus();
}

absl::Status Snapshots::Resume(const std::string& host) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<Snapshot> records, store_.ListSnapshots());
  for (const Snapshot& record : records) {
    if (!record.id.empty() || (hosts_.is_shared() && record.worker != host)) continue;
    FinishLater(record, absl::OkStatus());
  }
  return absl::OkStatus();
}

}  // namespace mooring::manager
