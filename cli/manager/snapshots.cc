// Snapshots of volumes.
#include <fmt/format.h>

#include <chrono>

#include "base/status.h"
#include "base/text/terminal_text.h"
#include "cli/manager/command.h"
#include "cli/manager/parse/volume_spec.h"
#include "cli/manager/show.h"

namespace mooring::cli::manager_area {
namespace {

std::string SourceText(const v1::Snapshot& snapshot) {
  return snapshot.has_source() ? ToString(snapshot.source()) : snapshot.source_volume_id();
}

std::string ReadyText(const v1::Snapshot& snapshot) {
  if (snapshot.unlisted()) return "not listed by the plugin";
  return snapshot.ready() ? "yes" : "no";
}

std::string SnapshotText(const v1::Snapshot& snapshot) {
  Details details;
  details.Add("id", snapshot.id());
  details.AddIf("name", snapshot.name());
  details.Add("plugin", snapshot.plugin());
  details.Add("volume", SourceText(snapshot));
  details.Add("size", CapacityText(snapshot.bytes()));
  details.AddIf("made", TimeText(snapshot.made_at_ms()));
  details.Add("ready", ReadyText(snapshot));
  return details.ToString();
}

std::string SnapshotTable(const v1::ListSnapshotsResponse& response) {
  Table table({"ID", "NAME", "PLUGIN", "VOLUME", "SIZE", "MADE", "READY"});
  for (const v1::Snapshot& snapshot : response.snapshots()) {
    table.Add({snapshot.id(), snapshot.name(), snapshot.plugin(), SourceText(snapshot), CapacityText(snapshot.bytes()),
               TimeText(snapshot.made_at_ms()), ReadyText(snapshot)});
  }
  return table.ToString();
}

// "db-2026-11-22T04:05:06Z". A caller that repeats its call and wants the same snapshot gives the name.
std::string NameOf(const Arguments& arguments) {
  if (!arguments.name.empty()) return arguments.name;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return arguments.id + "-" + TimeText(std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
}

absl::Status CreateSnapshot(Session& session) {
  v1::CreateSnapshotRequest request;
  *request.mutable_volume() = KeyOf(session.arguments);
  request.set_name(NameOf(session.arguments));
  Fill(session.arguments.parameters, *request.mutable_parameters());
  MOORING_ASSIGN_OR_RETURN(const auto response, session.Call(&Manager::Stub::CreateSnapshot, request));
  return session.Show(response, SnapshotText(response.snapshot()));
}

absl::Status ListSnapshots(Session& session) {
  v1::ListSnapshotsRequest request;
  request.set_plugin(session.arguments.plugin);
  MOORING_ASSIGN_OR_RETURN(const auto response, session.Call(&Manager::Stub::ListSnapshots, request));
  std::string text = SnapshotTable(response);
  if (!response.problem().empty()) {
    text +=
        fmt::format("This list may lack snapshots that the manager has not taken: {}\n", Visible(response.problem()));
  }
  return session.Show(response, text);
}

absl::Status DeleteSnapshot(Session& session) {
  v1::DeleteSnapshotRequest request;
  request.set_plugin(session.arguments.plugin);
  request.set_id(session.arguments.snapshot);
  request.set_must_exist(!session.arguments.if_exists);
  request.set_forget(session.arguments.forget);
  session.arguments.secrets.CopyTo(*request.mutable_secrets());
  MOORING_ASSIGN_OR_RETURN(const auto response, session.Call(&Manager::Stub::DeleteSnapshot, request));
  return session.Show(response, fmt::format("deleted {}\n", Visible(request.id())));
}

}  // namespace

Commands SnapshotCommands() {
  return {
      {"create",
       "Take a snapshot of a volume",
       {&Shared::kVolumeId},
       {&kSnapshotName, &kNamespace, &Shared::kParam},
       CreateSnapshot,
       "",
       kCreateTimeout},
      {"list", "List the snapshots of a plugin", {&kSnapshotPlugin}, {}, ListSnapshots},
      {"delete",
       "Delete a snapshot",
       {&kSnapshotId, &kSnapshotPlugin},
       AllOf<Arguments>({{&kIfExists, &kForget}, Shared::kSecretFlags}),
       DeleteSnapshot,
       "",
       kCreateTimeout},
  };
}

}  // namespace mooring::cli::manager_area
