// Snapshots of volumes and of groups of volumes, and the blocks of a snapshot.
#include <fmt/format.h>

#include "base/text/terminal_text.h"
#include "cli/csi/command.h"
#include "cli/csi/messages.h"
#include "cli/output/table.h"

namespace mooring::cli::csi_area {
namespace {

using csi::v1::Controller;
using csi::v1::GroupController;
using csi::v1::SnapshotMetadata;

std::string DetailsOf(const csi::v1::Snapshot& snapshot) {
  Details details;
  AddSnapshot(snapshot, details);
  return details.ToString();
}

absl::Status CreateSnapshot(Session& session) {
  MOORING_ASSIGN_OR_RETURN(const auto response, session.Send(&Controller::Stub::CreateSnapshot));
  return session.output.Show(response, DetailsOf(response.snapshot()));
}

absl::Status DeleteSnapshot(Session& session) {
  MOORING_ASSIGN_OR_RETURN(const auto response, session.Send(&Controller::Stub::DeleteSnapshot));
  return session.output.Show(response, fmt::format("deleted {}\n", Visible(session.arguments.id)));
}

absl::Status ListSnapshots(Session& session) {
  MOORING_ASSIGN_OR_RETURN(const auto response, FetchPages(session, &Controller::Stub::ListSnapshots));
  Table table = SnapshotTable();
  for (const csi::v1::ListSnapshotsResponse::Entry& entry : response.entries()) AddSnapshot(entry.snapshot(), table);
  return session.output.Show(response, table.ToString() + NextPageHint(response.next_token()));
}

absl::Status GetSnapshot(Session& session) {
  MOORING_ASSIGN_OR_RETURN(const auto response, session.Send(&Controller::Stub::GetSnapshot));
  return session.output.Show(response, DetailsOf(response.snapshot()));
}

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
  MOORING_ASSIGN_OR_RETURN(const auto response, session.Send(&GroupController::Stub::CreateVolumeGroupSnapshot));
  return session.output.Show(response, TextOf(response.group_snapshot()));
}

absl::Status DeleteGroupSnapshot(Session& session) {
  MOORING_ASSIGN_OR_RETURN(const auto response, session.Send(&GroupController::Stub::DeleteVolumeGroupSnapshot));
  return session.output.Show(response, fmt::format("deleted {}\n", Visible(session.arguments.id)));
}

absl::Status GetGroupSnapshot(Session& session) {
  MOORING_ASSIGN_OR_RETURN(const auto response, session.Send(&GroupController::Stub::GetVolumeGroupSnapshot));
  return session.output.Show(response, TextOf(response.group_snapshot()));
}

// Prints each range on a line: its offset and its length in bytes.
template <typename Response>
std::string RangesText(const Response& response) {
  std::string text;
  for (const csi::v1::BlockMetadata& block : response.block_metadata()) {
    text += fmt::format("{} {}\n", block.byte_offset(), block.size_bytes());
  }
  return text;
}

// Prints each message of the stream when it arrives, because a large volume has many.
template <typename Request, typename Response>
absl::Status PrintRanges(Session& session, StreamMethod<SnapshotMetadata::Stub, Request, Response> method) {
  Request request;
  MOORING_RETURN_IF_ERROR(FillRequest(session.arguments, request));
  return session.client.Stream(
      method, request, [&session](const Response& piece) { return session.output.Show(piece, RangesText(piece)); });
}

absl::Status Allocated(Session& session) { return PrintRanges(session, &SnapshotMetadata::Stub::GetMetadataAllocated); }

absl::Status Delta(Session& session) { return PrintRanges(session, &SnapshotMetadata::Stub::GetMetadataDelta); }

}  // namespace

Commands SnapshotCommands() {
  const Flags pages{&kMaxEntries, &kToken};
  return {
      {"create",
       "Take a snapshot of a volume",
       {&kName, &kOneVolume},
       AllOf({{&Shared::kParam}, Shared::kSecretFlags}),
       CreateSnapshot},
      {"delete", "Delete a snapshot", {&kSnapshotId}, Shared::kSecretFlags, DeleteSnapshot},
      {"list",
       "List the snapshots",
       {},
       AllOf({{&kOneVolume, &kOneSnapshot}, pages, Shared::kSecretFlags}),
       ListSnapshots},
      {"get", "Show a snapshot", {&kSnapshotId}, Shared::kSecretFlags, GetSnapshot},
  };
}

Commands GroupSnapshotCommands() {
  return {
      {"create",
       "Take snapshots of several volumes at one moment",
       {&kName, &kVolumes},
       AllOf({{&Shared::kParam}, Shared::kSecretFlags}),
       CreateGroupSnapshot},
      {"delete",
       "Delete a group snapshot and its members",
       {&kGroupSnapshotId},
       AllOf({{&kSnapshots}, Shared::kSecretFlags}),
       DeleteGroupSnapshot},
      {"get",
       "Show a group snapshot",
       {&kGroupSnapshotId},
       AllOf({{&kSnapshots}, Shared::kSecretFlags}),
       GetGroupSnapshot},
  };
}

Commands MetadataCommands() {
  const Flags place{&kOffset, &kMaxResults};
  return {
      {"metadata-allocated",
       "List the allocated ranges of a snapshot: offset and length",
       {&kSnapshotId},
       AllOf({place, Shared::kSecretFlags}),
       Allocated},
      {"metadata-delta",
       "List the ranges of a snapshot that differ from an older one",
       {&kBaseId, &kTargetId},
       AllOf({place, Shared::kSecretFlags}),
       Delta},
  };
}

}  // namespace mooring::cli::csi_area
