#include <fmt/format.h>

#include "cli/csi/command.h"
#include "cli/csi/messages.h"
#include "cli/csi/pages.h"
#include "cli/output/table.h"
#include "cli/output/text.h"

namespace mooring::cli::csi_area {
namespace {

using csi::v1::Controller;

std::string DetailsOf(const csi::v1::Snapshot& snapshot) {
  Details details;
  AddSnapshot(snapshot, details);
  return details.ToString();
}

absl::Status CreateSnapshot(Session& session) {
  const Arguments& arguments = session.arguments;
  csi::v1::CreateSnapshotRequest request;
  request.set_name(arguments.name);
  request.set_source_volume_id(arguments.from_volume);
  Fill(arguments.parameters, *request.mutable_parameters());
  arguments.secrets.CopyTo(*request.mutable_secrets());
  MOORING_ASSIGN_OR_RETURN(const csi::v1::CreateSnapshotResponse response,
                           session.client.Call<Controller>(&Controller::Stub::CreateSnapshot, request));
  return session.output.Show(response, DetailsOf(response.snapshot()));
}

absl::Status DeleteSnapshot(Session& session) {
  csi::v1::DeleteSnapshotRequest request;
  request.set_snapshot_id(session.arguments.id);
  session.arguments.secrets.CopyTo(*request.mutable_secrets());
  MOORING_ASSIGN_OR_RETURN(const csi::v1::DeleteSnapshotResponse response,
                           session.client.Call<Controller>(&Controller::Stub::DeleteSnapshot, request));
  return session.output.Show(response, fmt::format("deleted {}\n", Visible(request.snapshot_id())));
}

csi::v1::ListSnapshotsRequest ListRequest(const Arguments& arguments) {
  csi::v1::ListSnapshotsRequest request;
  request.set_max_entries(arguments.max_entries);
  request.set_starting_token(arguments.token);
  request.set_source_volume_id(arguments.from_volume);
  request.set_snapshot_id(arguments.from_snapshot);
  arguments.secrets.CopyTo(*request.mutable_secrets());
  return request;
}

absl::Status ListSnapshots(Session& session) {
  const auto fetch = [&session](const csi::v1::ListSnapshotsRequest& page) {
    return session.client.Call<Controller>(&Controller::Stub::ListSnapshots, page);
  };
  MOORING_ASSIGN_OR_RETURN(const auto response,
                           FetchPages<csi::v1::ListSnapshotsResponse>(ListRequest(session.arguments), fetch));
  Table table = SnapshotTable();
  for (const csi::v1::ListSnapshotsResponse::Entry& entry : response.entries()) AddSnapshot(entry.snapshot(), table);
  return session.output.Show(response, table.ToString() + NextPageHint(response.next_token()));
}

absl::Status GetSnapshot(Session& session) {
  csi::v1::GetSnapshotRequest request;
  request.set_snapshot_id(session.arguments.id);
  session.arguments.secrets.CopyTo(*request.mutable_secrets());
  MOORING_ASSIGN_OR_RETURN(const csi::v1::GetSnapshotResponse response,
                           session.client.Call<Controller>(&Controller::Stub::GetSnapshot, request));
  return session.output.Show(response, DetailsOf(response.snapshot()));
}

}  // namespace

Commands SnapshotCommands() {
  const Flags pages{&kMaxEntries, &kToken};
  return {
      {"create",
       "Take a snapshot of a volume",
       {&kName, &kOneVolume},
       AllOf({{&Shared::kParam}, kSecretFlags}),
       CreateSnapshot},
      {"delete", "Delete a snapshot", {&kSnapshotId}, kSecretFlags, DeleteSnapshot},
      {"list", "List the snapshots", {}, AllOf({{&kOneVolume, &kOneSnapshot}, pages, kSecretFlags}), ListSnapshots},
      {"get", "Show a snapshot", {&kSnapshotId}, kSecretFlags, GetSnapshot},
  };
}

}  // namespace mooring::cli::csi_area
