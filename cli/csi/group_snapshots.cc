#include <fmt/format.h>

#include "cli/csi/command.h"
#include "cli/csi/messages.h"
#include "cli/output/table.h"
#include "cli/output/text.h"

namespace mooring::cli::csi_area {
namespace {

using csi::v1::GroupController;

std::string TextOf(const csi::v1::VolumeGroupSnapshot& group) {
  Details details;
  details.Add("id", group.group_snapshot_id());
  if (group.has_creation_time()) details.Add("created", ToString(group.creation_time()));
  details.Add("ready", group.ready_to_use() ? "yes" : "no");
  Table table = SnapshotTable();
  for (const csi::v1::Snapshot& snapshot : group.snapshots()) AddSnapshot(snapshot, table);
  return details.ToString() + table.ToString();
}

absl::Status CreateGroupSnapshot(Session& session) {
  const Arguments& arguments = session.arguments;
  csi::v1::CreateVolumeGroupSnapshotRequest request;
  request.set_name(arguments.name);
  request.mutable_source_volume_ids()->Assign(arguments.volumes.begin(), arguments.volumes.end());
  Fill(arguments.parameters, *request.mutable_parameters());
  arguments.secrets.CopyTo(*request.mutable_secrets());
  MOORING_ASSIGN_OR_RETURN(
      const csi::v1::CreateVolumeGroupSnapshotResponse response,
      session.client.Call<GroupController>(&GroupController::Stub::CreateVolumeGroupSnapshot, request));
  return session.output.Show(response, TextOf(response.group_snapshot()));
}

// The requests to delete and to get a group name the group and its members, so that the driver can check them.
template <typename Request>
Request MembersRequest(const Arguments& arguments) {
  Request request;
  request.set_group_snapshot_id(arguments.id);
  request.mutable_snapshot_ids()->Assign(arguments.snapshots.begin(), arguments.snapshots.end());
  arguments.secrets.CopyTo(*request.mutable_secrets());
  return request;
}

absl::Status DeleteGroupSnapshot(Session& session) {
  const auto request = MembersRequest<csi::v1::DeleteVolumeGroupSnapshotRequest>(session.arguments);
  MOORING_ASSIGN_OR_RETURN(
      const csi::v1::DeleteVolumeGroupSnapshotResponse response,
      session.client.Call<GroupController>(&GroupController::Stub::DeleteVolumeGroupSnapshot, request));
  return session.output.Show(response, fmt::format("deleted {}\n", Visible(request.group_snapshot_id())));
}

absl::Status GetGroupSnapshot(Session& session) {
  const auto request = MembersRequest<csi::v1::GetVolumeGroupSnapshotRequest>(session.arguments);
  MOORING_ASSIGN_OR_RETURN(
      const csi::v1::GetVolumeGroupSnapshotResponse response,
      session.client.Call<GroupController>(&GroupController::Stub::GetVolumeGroupSnapshot, request));
  return session.output.Show(response, TextOf(response.group_snapshot()));
}

}  // namespace

Commands GroupSnapshotCommands() {
  return {
      {"create",
       "Take snapshots of several volumes at one moment",
       {&kName, &kVolumes},
       AllOf({{&Shared::kParam}, kSecretFlags}),
       CreateGroupSnapshot},
      {"delete",
       "Delete a group snapshot and its members",
       {&kGroupSnapshotId},
       AllOf({{&kSnapshots}, kSecretFlags}),
       DeleteGroupSnapshot},
      {"get", "Show a group snapshot", {&kGroupSnapshotId}, AllOf({{&kSnapshots}, kSecretFlags}), GetGroupSnapshot},
  };
}

}  // namespace mooring::cli::csi_area
