#include "plugin/api/snapshot_metadata_service.h"

#include <algorithm>

#include "base/status.h"
#include "plugin/api/readiness.h"
#include "plugin/api/request_fields.h"
#include "plugin/backends/image/snapshot_blocks.h"

namespace mooring {
namespace {

constexpr int kResults = 1024;       // in a message, if the caller sets no limit
constexpr int kMostResults = 65536;  // of at most 22 bytes each; a message has at most 4 MiB

// OUT_OF_RANGE: the offset is outside the volume (CSI 1.12).
absl::Status CheckPlace(std::int64_t starting_offset, std::int32_t max_results) {
  if (starting_offset < 0) return OutOfRange("starting_offset is {}: it must not be negative", starting_offset);
  if (max_results >= 0) return absl::OkStatus();
  return InvalidArgument("max_results is {}: it must not be negative", max_results);
}

absl::Status CheckWithin(std::int64_t starting_offset, const SnapshotImage& image) {
  if (static_cast<std::uint64_t>(starting_offset) <= image.bytes()) return absl::OkStatus();
  return OutOfRange("starting_offset {} lies behind the end of the snapshot, which has {} bytes", starting_offset,
                    image.bytes());
}

absl::Status CheckOneVolume(const SnapshotRecord& base, const SnapshotRecord& target) {
  if (base.source_volume_id != target.source_volume_id) {
    return InvalidArgument("snapshots {} and {} are of different volumes, {} and {}", base.id, target.id,
                           base.source_volume_id, target.source_volume_id);
  }
  if (base.created_at <= target.created_at) return absl::OkStatus();
  return InvalidArgument("base_snapshot_id {} is newer than target_snapshot_id {}: exchange them", base.id, target.id);
}

absl::StatusOr<SnapshotImage> OpenImage(const SnapshotCatalog::Image& image) {
  if (!TraitsOf(image.kind).snapshot_blocks) {
    return FailedPrecondition("snapshot {} has the backend {}, which does not tell the blocks of a snapshot",
                              image.snapshot.id, ToString(image.kind));
  }
  absl::StatusOr<SnapshotImage> opened = SnapshotImage::Open(image.path);
  if (!opened.ok()) return Unexpected(opened.status());
  return opened;
}

// Collects results into messages and sends them.
template <typename Response>
class Stream {
 public:
  Stream(grpc::ServerWriter<Response>& writer, grpc::ServerContext& context, Rpc& rpc, std::uint64_t capacity,
         std::int32_t max_results)
      : writer_(writer),
        context_(context),
        rpc_(rpc),
        most_(max_results == 0 ? kResults : std::min(max_results, kMostResults)) {
    message_.set_block_metadata_type(csi::v1::VARIABLE_LENGTH);
    message_.set_volume_capacity_bytes(static_cast<std::int64_t>(capacity));
  }

  absl::Status Add(const ByteRange& range) {
    csi::v1::BlockMetadata& block = *message_.add_block_metadata();
    block.set_byte_offset(static_cast<std::int64_t>(range.begin));
    block.set_size_bytes(static_cast<std::int64_t>(range.end - range.begin));
    return message_.block_metadata_size() < most_ ? absl::OkStatus() : Send();
  }

  // Sends the last results. Without any result, sends a message with the size of the volume.
  absl::Status Finish() { return sent_ && message_.block_metadata().empty() ? absl::OkStatus() : Send(); }

 private:
  absl::Status Send() {
    if (rpc_.is_draining()) return Stopping();
    if (context_.IsCancelled() || !writer_.Write(message_)) return absl::CancelledError("the caller went away");
    message_.clear_block_metadata();
    sent_ = true;
    return absl::OkStatus();
  }

  grpc::ServerWriter<Response>& writer_;
  grpc::ServerContext& context_;
  Rpc& rpc_;
  const int most_;
  Response message_;
  bool sent_ = false;
};

}  // namespace

absl::Status SnapshotMetadataService::Allocated(const csi::v1::GetMetadataAllocatedRequest& request,
                                                grpc::ServerContext& context,
                                                grpc::ServerWriter<csi::v1::GetMetadataAllocatedResponse>& writer) {
  MOORING_RETURN_IF_ERROR(Required("snapshot_id", request.snapshot_id()).status());
  MOORING_RETURN_IF_ERROR(CheckPlace(request.starting_offset(), request.max_results()));
  MOORING_ASSIGN_OR_RETURN(const SnapshotCatalog::Image found, snapshots_.Locate(request.snapshot_id()));
  MOORING_ASSIGN_OR_RETURN(const SnapshotImage image, OpenImage(found));
  MOORING_RETURN_IF_ERROR(CheckWithin(request.starting_offset(), image));
  Stream stream(writer, context, rpc_, image.bytes(), request.max_results());
  MOORING_RETURN_IF_ERROR(FindAllocated(image, static_cast<std::uint64_t>(request.starting_offset()),
                                        [&](const ByteRange& range) { return stream.Add(range); }));
  return stream.Finish();
}

absl::Status SnapshotMetadataService::Delta(const csi::v1::GetMetadataDeltaRequest& request,
                                            grpc::ServerContext& context,
                                            grpc::ServerWriter<csi::v1::GetMetadataDeltaResponse>& writer) {
  MOORING_RETURN_IF_ERROR(Required("base_snapshot_id", request.base_snapshot_id()).status());
  MOORING_RETURN_IF_ERROR(Required("target_snapshot_id", request.target_snapshot_id()).status());
  MOORING_RETURN_IF_ERROR(CheckPlace(request.starting_offset(), request.max_results()));
  MOORING_ASSIGN_OR_RETURN(const SnapshotCatalog::Image older, snapshots_.Locate(request.base_snapshot_id()));
  MOORING_ASSIGN_OR_RETURN(const SnapshotCatalog::Image newer, snapshots_.Locate(request.target_snapshot_id()));
  MOORING_RETURN_IF_ERROR(CheckOneVolume(older.snapshot, newer.snapshot));
  MOORING_ASSIGN_OR_RETURN(const SnapshotImage base, OpenImage(older));
  MOORING_ASSIGN_OR_RETURN(const SnapshotImage target, OpenImage(newer));
  MOORING_RETURN_IF_ERROR(CheckWithin(request.starting_offset(), target));
  Stream stream(writer, context, rpc_, target.bytes(), request.max_results());
  MOORING_RETURN_IF_ERROR(FindChanged(base, target, static_cast<std::uint64_t>(request.starting_offset()),
                                      [&](const ByteRange& range) { return stream.Add(range); }));
  return stream.Finish();
}

}  // namespace mooring
