// The allocated and the changed blocks of a snapshot. Each message of the stream is printed when it arrives, because a
// large volume has many.
#include <fmt/format.h>

#include "cli/csi/command.h"

namespace mooring::cli::csi_area {
namespace {

using csi::v1::SnapshotMetadata;

// Prints each range on a line: its offset and its length in bytes.
template <typename Response>
std::string TextOf(const Response& response) {
  std::string text;
  for (const csi::v1::BlockMetadata& block : response.block_metadata()) {
    text += fmt::format("{} {}\n", block.byte_offset(), block.size_bytes());
  }
  return text;
}

template <typename Request>
void FillPlace(const Arguments& arguments, Request& request) {
  request.set_starting_offset(arguments.offset.value_or(0));
  request.set_max_results(arguments.max_entries);
  arguments.secrets.CopyTo(*request.mutable_secrets());
}

absl::Status Allocated(Session& session) {
  csi::v1::GetMetadataAllocatedRequest request;
  request.set_snapshot_id(session.arguments.id);
  FillPlace(session.arguments, request);
  return session.client.Stream<SnapshotMetadata, csi::v1::GetMetadataAllocatedResponse>(
      &SnapshotMetadata::Stub::GetMetadataAllocated, request,
      [&](const csi::v1::GetMetadataAllocatedResponse& piece) { return session.output.Show(piece, TextOf(piece)); });
}

absl::Status Delta(Session& session) {
  csi::v1::GetMetadataDeltaRequest request;
  request.set_base_snapshot_id(session.arguments.id);
  request.set_target_snapshot_id(session.arguments.target);
  FillPlace(session.arguments, request);
  return session.client.Stream<SnapshotMetadata, csi::v1::GetMetadataDeltaResponse>(
      &SnapshotMetadata::Stub::GetMetadataDelta, request,
      [&](const csi::v1::GetMetadataDeltaResponse& piece) { return session.output.Show(piece, TextOf(piece)); });
}

}  // namespace

Commands MetadataCommands() {
  const Flags place{&kOffset, &kMaxResults};
  return {
      {"metadata-allocated",
       "List the allocated ranges of a snapshot: offset and length",
       {&kSnapshotId},
       AllOf({place, kSecretFlags}),
       Allocated},
      {"metadata-delta",
       "List the ranges of a snapshot that differ from an older one",
       {&kBaseId, &kTargetId},
       AllOf({place, kSecretFlags}),
       Delta},
  };
}

}  // namespace mooring::cli::csi_area
