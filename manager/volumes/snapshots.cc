#include "manager/volumes/snapshots.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/status.h"
#include "base/text/quote.h"
#include "base/text/terminal_text.h"
#include "manager/claims/claim_rules.h"
#include "manager/csi/csi_volume.h"
#include "manager/records/names.h"
#include "manager/state/keys.h"
#include "manager/volumes/volumes.h"

namespace mooring::manager {
namespace {

constexpr int kSnapshotsOfPage = 500;          // a page has to fit into the answer of a request to another host, 1 MiB
constexpr std::chrono::seconds kAttempt{20};   // for one try in the background, which holds the lock of the volume
constexpr std::chrono::seconds kPatience{20};  // for the list of a controller, if there are records
constexpr std::chrono::minutes kWanted{5};     // a later snapshot would have another content than its user expects

void CopyFromCsi(const csi::v1::Snapshot& message, Snapshot& snapshot) {
  snapshot.id = message.snapshot_id();
  snapshot.source_volume_id = message.source_volume_id();
  snapshot.bytes = static_cast<std::uint64_t>(message.size_bytes());
  snapshot.made_at =
      Time(std::chrono::duration_cast<Time::duration>(std::chrono::seconds(message.creation_time().seconds()) +
                                                      std::chrono::nanoseconds(message.creation_time().nanos())));
  snapshot.ready = message.ready_to_use();
}

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

ControllerFor ControllerOf(const Snapshot& snapshot) {
  ControllerFor controller(snapshot.plugin);
  controller.reaches = snapshot.topologies;
  controller.is_known = true;
  return controller;
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
      plugins_(plugins),
      hosts_(hosts),
      controller_locks_(controller_locks),
      events_(events),
      retry_(std::move(retry)),
      work_(queue, {.kind = "snapshot"}) {}

absl::Status Snapshots::CheckHasSnapshots(const ControllerFor& of, Clock::time_point until) {
  MOORING_ASSIGN_OR_RETURN(const PluginTraits traits, ControllerTraits(plugins_, of, retry_, until));
  return traits.snapshots ? absl::OkStatus() : FailedPrecondition("plugin {} has no snapshots", Quote(of.plugin));
}

absl::StatusOr<Snapshot> Snapshots::Create(const VolumeKey& key, const std::string& name, const StringMap& parameters,
                                           Clock::time_point until) {
  MOORING_RETURN_IF_ERROR(CheckName("snapshot name", name));
  MOORING_ASSIGN_OR_RETURN(const KeyedLocks::Hold hold, LockController(controller_locks_, key, until));
  MOORING_ASSIGN_OR_RETURN(const Volume source, store_.GetVolume(key));
  MOORING_RETURN_IF_ERROR(CheckReady(source));
  MOORING_RETURN_IF_ERROR(CheckSecrets(source));
  MOORING_RETURN_IF_ERROR(CheckHasSnapshots(ControllerFor(source), until));
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
  const Taken taken = Take(wanted, source.secrets, until);
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

Snapshots::Taken Snapshots::Take(const Snapshot& record, const Secrets& secrets, Clock::time_point until) {
  csi::v1::CreateSnapshotRequest request;
  request.set_source_volume_id(record.source_volume_id);
  request.set_name(record.name);
  request.mutable_parameters()->insert(record.parameters.begin(), record.parameters.end());
  secrets.CopyTo(*request.mutable_secrets());
  int tries = 0;
  const auto counted = [&](const PluginTraits&) -> const auto& {
    ++tries;
    return request;
  };
  auto answer = CallController(plugins_, ControllerOf(record), counted, retry_, until);
  // A refusal after a try without an answer says nothing about that try.
  const bool is_refused = IsRefusal(answer.status()) || absl::IsResourceExhausted(answer.status());
  const bool none = !answer.ok() && (tries == 0 || (tries == 1 && is_refused));
  return {std::move(answer), none};
}

absl::StatusOr<Snapshot> Snapshots::Complete(const Snapshot& record, const csi::v1::Snapshot& taken) {
  if (taken.snapshot_id().empty()) {
    return Internal("CreateSnapshot of plugin {} answered without a snapshot id", Quote(record.plugin));
  }
  Snapshot snapshot = record;
  CopyFromCsi(taken, snapshot);
  snapshot.source_volume_id = record.source_volume_id;  // it is a part of the key
  snapshot.worker.clear();
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
  MOORING_ASSIGN_OR_RETURN(const auto answer, Take(record, secrets, until).answer);
  const auto completed = Complete(record, answer.snapshot());
  if (!absl::IsNotFound(completed.status())) return completed.status();
  return CallDelete(ControllerOf(record), answer.snapshot().snapshot_id(), secrets, until);  // it was deleted meanwhile
}

// A repeated CreateSnapshot tells the id for DeleteSnapshot.
absl::Status Snapshots::Undo(const Snapshot& record, const Secrets& given, Clock::time_point until) {
  MOORING_ASSIGN_OR_RETURN(const Secrets of_volume, SecretsOf(record));
  const Secrets& secrets = given.empty() ? of_volume : given;
  const Taken taken = Take(record, secrets, until);
  if (!taken.answer.ok()) {
    return Annotate(
        taken.answer.status(),
        fmt::format("it is unknown whether the plugin has snapshot {} of volume {}; 'mooring volume snapshot "
                    "delete --forget' drops the record alone",
                    Quote(record.name), Quote(record.source_volume_id)));
  }
  MOORING_RETURN_IF_ERROR(CallDelete(ControllerOf(record), taken.answer->snapshot().snapshot_id(), secrets, until));
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

// A controller for each set of hosts that reach the same storage. Without topologies there is one, and if it refuses,
// the controllers of other hosts are asked.
absl::StatusOr<std::vector<ControllerFor>> Snapshots::Places(const std::string& plugin) {
  MOORING_ASSIGN_OR_RETURN(const PluginStatus status, FindKnown(plugins_, plugin));
  if (!IsTopologyKnown(status)) {
    return Unavailable("plugin {} has not told yet which storage this host reaches: try again", Quote(plugin));
  }
  std::set<StringMap> topologies;
  for (const InstanceStatus& each : status.instances) {
    if (each.instance.type != PluginType::kController || !each.fingerprint.healthy) continue;
    topologies.insert(each.instance.provider == "host" ? each.fingerprint.topology : NodeTopology(status));
  }
  if (topologies.size() > 1) topologies.erase(StringMap());  // a host without the node service reaches no storage
  std::vector<ControllerFor> places;
  for (const StringMap& topology : topologies) {
    places.emplace_back(plugin);
    if (topology.empty()) {
      places.back().is_known = true;
    } else {
      places.back().reaches = {{topology}};
    }
  }
  return places;
}

absl::Status Snapshots::Delete(const std::string& plugin, const std::string& id, const Secrets& secrets,
                               Clock::time_point until) {
  MOORING_ASSIGN_OR_RETURN(const auto found, Find(plugin, id));
  if (!found) return DeleteEverywhere(plugin, id, secrets, until);
  const VolumeKey source = found->source.value_or(VolumeKey());
  MOORING_ASSIGN_OR_RETURN(const KeyedLocks::Hold hold, LockController(controller_locks_, source, until));
  const auto record = store_.GetSnapshot(*found);
  if (absl::IsNotFound(record.status())) return absl::OkStatus();
  MOORING_RETURN_IF_ERROR(record.status());
  if (record->id.empty()) return Undo(*record, secrets, until);
  MOORING_RETURN_IF_ERROR(CallDelete(ControllerOf(*record), record->id, secrets, until));
  return Forget(*record);
}

absl::Status Snapshots::DropRecord(const std::string& plugin, const std::string& id) {
  MOORING_ASSIGN_OR_RETURN(const auto record, Find(plugin, id));
  return record ? Forget(*record) : NotFound("the manager has no record of snapshot {}", Quote(id));
}

absl::Status Snapshots::CallDelete(const ControllerFor& controller, const std::string& id, const Secrets& secrets,
                                   Clock::time_point until) {
  MOORING_RETURN_IF_ERROR(CheckHasSnapshots(controller, until));
  csi::v1::DeleteSnapshotRequest request;
  request.set_snapshot_id(id);
  secrets.CopyTo(*request.mutable_secrets());
  const absl::Status status = CallController(plugins_, controller, request, retry_, until).status();
  return absl::IsNotFound(status) ? absl::OkStatus() : status;
}

// Nobody knows which host has it, so all are asked, also after an error.
absl::Status Snapshots::DeleteEverywhere(const std::string& plugin, const std::string& id, const Secrets& secrets,
                                         Clock::time_point until) {
  MOORING_RETURN_IF_ERROR(CheckHasSnapshots(plugin, until));
  MOORING_ASSIGN_OR_RETURN(const std::vector<ControllerFor> places, Places(plugin));
  if (places.empty()) return Unavailable("no controller of plugin {} is healthy: try again", Quote(plugin));
  absl::Status problem;
  for (const ControllerFor& place : places) {
    const absl::Status status = CallDelete(place, id, secrets, until);
    if (problem.ok() || (IsRefusal(problem) && !status.ok())) problem = status;
  }
  return problem;
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
  if (record) return absl::OkStatus();
  MOORING_RETURN_IF_ERROR(CheckHasSnapshots(plugin, until));
  csi::v1::ListSnapshotsRequest request;
  request.set_snapshot_id(id);
  secrets.CopyTo(*request.mutable_secrets());
  MOORING_ASSIGN_OR_RETURN(const std::vector<ControllerFor> places, Places(plugin));
  if (places.empty()) return absl::OkStatus();
  for (const ControllerFor& place : places) {
    const auto traits = ControllerTraits(plugins_, place, retry_, until);
    if (!traits.ok() || !traits->lists_snapshots) return absl::OkStatus();
    const auto found = CallController(plugins_, place, request, retry_, until);
    if (!found.ok()) return absl::OkStatus();
    for (const auto& entry : found->entries()) {
      if (entry.snapshot().snapshot_id() == id) return absl::OkStatus();
    }
  }
  return NotFound("plugin {} has no snapshot {}: 'mooring volume snapshot list --plugin {}' lists them", Quote(plugin),
                  Quote(id), plugin);
}

absl::StatusOr<std::vector<Snapshot>> Snapshots::ListAt(const ControllerFor& place, Clock::time_point until) {
  MOORING_RETURN_IF_ERROR(CheckHasSnapshots(place, until));
  MOORING_ASSIGN_OR_RETURN(const PluginTraits traits, ControllerTraits(plugins_, place, retry_, until));
  if (!traits.lists_snapshots) {
    return FailedPrecondition("plugin {} does not list its snapshots", Quote(place.plugin));
  }
  std::vector<Snapshot> snapshots;
  std::set<std::string> seen;  // page tokens
  csi::v1::ListSnapshotsRequest request;
  request.set_max_entries(kSnapshotsOfPage);
  do {
    MOORING_ASSIGN_OR_RETURN(const auto page, CallController(plugins_, place, request, retry_, until));
    for (const auto& entry : page.entries()) {
      Snapshot& snapshot = snapshots.emplace_back();
      snapshot.plugin = place.plugin;
      CopyFromCsi(entry.snapshot(), snapshot);
    }
    if (!seen.insert(page.next_token()).second) break;  // a token that came before would repeat the pages for ever
    request.set_starting_token(page.next_token());
  } while (!request.starting_token().empty());
  return snapshots;
}

absl::StatusOr<SnapshotList> Snapshots::List(const std::string& plugin, Clock::time_point until) {
  SnapshotList list;
  std::vector<Snapshot>& snapshots = list.snapshots;
  MOORING_ASSIGN_OR_RETURN(snapshots, store_.ListSnapshots(plugin));
  auto places = Places(plugin);
  if (!places.ok() && snapshots.empty()) return places.status();
  if (places.ok() && places->empty() && snapshots.empty()) places->emplace_back(plugin);  // waits for it
  std::map<std::string, Snapshot> listed;
  std::vector<ControllerFor> asked;
  absl::Status problem = places.status();
  if (places.ok() && places->empty()) problem = Unavailable("no controller of plugin {} is healthy", Quote(plugin));
  for (const ControllerFor& place : places.value_or(std::vector<ControllerFor>())) {
    const auto found = ListAt(place, snapshots.empty() ? until : std::min(until, Clock::now() + kPatience));
    if (!found.ok()) {
      problem = found.status();
      continue;
    }
    asked.push_back(place);
    for (const Snapshot& snapshot : *found) listed.emplace(snapshot.id, snapshot);
  }
  if (asked.empty() && snapshots.empty()) return problem;
  for (Snapshot& record : snapshots) {
    const auto here = listed.find(record.id);
    record.is_unlisted = here == listed.end() && !record.id.empty() && IsAt(asked, record);
    if (here == listed.end()) continue;
    record.ready = here->second.ready;
    listed.erase(here);
  }
  MOORING_RETURN_IF_ERROR(AddWithSources(listed, snapshots));
  list.problem = Message(problem);
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
