// csi.v1.SnapshotMetadata: which blocks of a snapshot hold data, and which changed since another one. Streams.
#pragma once

#include "absl/status/status.h"
#include "csi.grpc.pb.h"
#include "plugin/api/rpc.h"
#include "plugin/catalog/snapshot_catalog.h"

namespace mooring {

class SnapshotMetadataService final : public csi::v1::SnapshotMetadata::Service {
 public:
  // Both outlive the service.
  SnapshotMetadataService(SnapshotCatalog& snapshots, Rpc& rpc) : snapshots_(snapshots), rpc_(rpc) {}

  grpc::Status GetMetadataAllocated(grpc::ServerContext* context, const csi::v1::GetMetadataAllocatedRequest* request,
                                    grpc::ServerWriter<csi::v1::GetMetadataAllocatedResponse>* writer) override {
    return rpc_.ServeStream(context, *request, [&](const Call&) { return Allocated(*request, *context, *writer); });
  }
  grpc::Status GetMetadataDelta(grpc::ServerContext* context, const csi::v1::GetMetadataDeltaRequest* request,
                                grpc::ServerWriter<csi::v1::GetMetadataDeltaResponse>* writer) override {
    return rpc_.ServeStream(context, *request, [&](const Call&) { return Delta(*request, *context, *writer); });
  }

 private:
  absl::Status Allocated(const csi::v1::GetMetadataAllocatedRequest& request, grpc::ServerContext& context,
                         grpc::ServerWriter<csi::v1::GetMetadataAllocatedResponse>& writer);
  absl::Status Delta(const csi::v1::GetMetadataDeltaRequest& request, grpc::ServerContext& context,
                     grpc::ServerWriter<csi::v1::GetMetadataDeltaResponse>& writer);

  SnapshotCatalog& snapshots_;
  Rpc& rpc_;
};

}  // namespace mooring
