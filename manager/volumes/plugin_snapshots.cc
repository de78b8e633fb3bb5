#include "manager/volumes/plugin_snapshots.h"

#include <algorithm>
#include <future>
#include <set>

#include "base/status.h"
#include "base/text/quote.h"
#include "manager/plugins/controller_call.h"

namespace mooring::manager {
namespace {

constexpr int kSnapshotsOfPage = 500;          // a page has to fit into the answer of a request to another host, 1 MiB
constexpr std::chrono::seconds kPatience{20};  // for a list that is wanted besides the records

}  // namespace

void CopyFromCsi(const csi::v1::Snapshot& message, Snapshot& snapshot) {
  snapshot.id = message.snapshot_id();
  snapshot.source_volume_id = message.source_volume_id();
  snapshot.bytes = static_cast<std::uint64_t>(message.size_bytes());
  snapshot.made_at =
      Time(std::chrono::duration_cast<Time::duration>(std::chrono::seconds(message.creation_time().seconds()) +
                                                      std::chrono::nanoseconds(message.creation_time().nanos())));
  snapshot.ready = message.ready_to_use();
}

ControllerFor ControllerOf(const Snapshot& snapshot) {
  ControllerFor controller(snapshot.plugin);
  controller.reaches = snapshot.topologies;
  controller.is_known = true;
  return controller;
}

absl::StatusOr<PluginTraits> PluginSnapshots::Traits(const ControllerFor& of, Clock::time_point until) {
  MOORING_ASSIGN_OR_RETURN(const PluginTraits traits, ControllerTraits(plugins_, of, retry_, until));
  if (!traits.snapshots) return FailedPrecondition("plugin {} has no snapshots", Quote(of.plugin));
  return traits;
}

PluginSnapshots::Taken PluginSnapshots::Take(const Snapshot& record, const Secrets& secrets, Clock::time_point until) {
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

// A controller for each set of hosts that reach the same storage. Without topologies there is one, and if it refuses,
// the controllers of other hosts are asked.
absl::StatusOr<std::vector<ControllerFor>> PluginSnapshots::Places(const std::string& plugin) {
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

absl::Status PluginSnapshots::Delete(const ControllerFor& controller, const std::string& id, const Secrets& secrets,
                                     Clock::time_point until) {
  MOORING_RETURN_IF_ERROR(Traits(controller, until).status());
  csi::v1::DeleteSnapshotRequest request;
  request.set_snapshot_id(id);
  secrets.CopyTo(*request.mutable_secrets());
  const absl::Status status = CallController(plugins_, controller, request, retry_, until).status();
  return absl::IsNotFound(status) ? absl::OkStatus() : status;
}

absl::Status PluginSnapshots::DeleteEverywhere(const std::string& plugin, const std::string& id, const Secrets& secrets,
                                               Clock::time_point until) {
  MOORING_RETURN_IF_ERROR(Traits(plugin, until).status());
  MOORING_ASSIGN_OR_RETURN(const std::vector<ControllerFor> places, Places(plugin));
  if (places.empty()) return Unavailable("no controller of plugin {} is healthy: try again", Quote(plugin));
  absl::Status problem;
  for (const ControllerFor& place : places) {
    const absl::Status status = Delete(place, id, secrets, until);
    if (problem.ok() || (IsRefusal(problem) && !status.ok())) problem = status;
  }
  return problem;
}

absl::Status PluginSnapshots::CheckExists(const std::string& plugin, const std::string& id, const Secrets& secrets,
                                          Clock::time_point until) {
  MOORING_RETURN_IF_ERROR(Traits(plugin, until).status());
  csi::v1::ListSnapshotsRequest request;
  request.set_snapshot_id(id);
  secrets.CopyTo(*request.mutable_secrets());
  MOORING_ASSIGN_OR_RETURN(const std::vector<ControllerFor> places, Places(plugin));
  if (places.empty()) return absl::OkStatus();
  for (const ControllerFor& place : places) {
    const auto traits = Traits(place, until);
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

absl::StatusOr<std::vector<Snapshot>> PluginSnapshots::ListAt(const ControllerFor& place, Clock::time_point until) {
  MOORING_ASSIGN_OR_RETURN(const PluginTraits traits, Traits(place, until));
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

PluginSnapshots::Listed PluginSnapshots::List(const std::string& plugin, bool waits, Clock::time_point until) {
  Listed all;
  absl::StatusOr<std::vector<ControllerFor>> places = Places(plugin);
  all.problem = places.status();
  if (!places.ok()) return all;
  if (places->empty() && waits) places->emplace_back(plugin);
  if (places->empty()) all.problem = Unavailable("no controller of plugin {} is healthy", Quote(plugin));
  const Clock::time_point patience = waits ? until : std::min(until, Clock::now() + kPatience);
  std::vector<std::future<absl::StatusOr<std::vector<Snapshot>>>> lists;
  for (const ControllerFor& place : *places) {
    lists.push_back(std::async([this, &place, patience] { return ListAt(place, patience); }));
  }
  for (std::size_t i = 0; i < lists.size(); ++i) {
    const auto found = lists[i].get();
    if (!found.ok()) {
      all.problem = found.status();
      continue;
    }
    all.asked.push_back((*places)[i]);
    for (const Snapshot& snapshot : *found) all.snapshots.emplace(snapshot.id, snapshot);
  }
  return all;
}

}  // namespace mooring::manager
