// csi.v1.GroupController: unpacks, calls the catalog of the snapshots, packs.
#ifndef MOORING_PLUGIN_API_GROUP_CONTROLLER_SERVICE_H_
#define MOORING_PLUGIN_API_GROUP_CONTROLLER_SERVICE_H_

#include "absl/status/statusor.h"
#include "csi.grpc.pb.h"
#include "plugin/api/rpc.h"
#include "plugin/catalog/snapshot_catalog.h"
#include "plugin/model/call.h"

namespace mooring {

class GroupControllerService final : public csi::v1::GroupController::Service {
 public:
  // Both outlive the service.
  GroupControllerService(SnapshotCatalog& snapshots, Rpc& rpc) : snapshots_(snapshots), rpc_(rpc) {}

  grpc::Status GroupControllerGetCapabilities(grpc::ServerContext* context,
                                              const csi::v1::GroupControllerGetCapabilitiesRequest* request,
                                              csi::v1::GroupControllerGetCapabilitiesResponse* response) override {
    using Response = csi::v1::GroupControllerGetCapabilitiesResponse;
    const auto capabilities = [](const Call&) -> absl::StatusOr<Response> {
      Response answer;
      answer.add_capabilities()->mutable_rpc()->set_type(
          csi::v1::GroupControllerServiceCapability::RPC::CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT);
      return answer;
    };
    return rpc_.Serve(context, *request, response, capabilities, Rpc::When::kAlways);
  }
  grpc::Status CreateVolumeGroupSnapshot(grpc::ServerContext* context,
                                         const csi::v1::CreateVolumeGroupSnapshotRequest* request,
                                         csi::v1::CreateVolumeGroupSnapshotResponse* response) override {
    return rpc_.Serve(context, *request, response, [&](const Call& call) { return Create(*request, call); });
  }
  grpc::Status DeleteVolumeGroupSnapshot(grpc::ServerContext* context,
                                         const csi::v1::DeleteVolumeGroupSnapshotRequest* request,
                                         csi::v1::DeleteVolumeGroupSnapshotResponse* response) override {
    return rpc_.Serve(context, *request, response, [&](const Call& call) { return Delete(*request, call); });
  }
  grpc::Status GetVolumeGroupSnapshot(grpc::ServerContext* context,
                                      const csi::v1::GetVolumeGroupSnapshotRequest* request,
                                      csi::v1::GetVolumeGroupSnapshotResponse* response) override {
    return rpc_.Serve(context, *request, response, [&](const Call&) { return Get(*request); });
  }

 private:
  absl::StatusOr<csi::v1::CreateVolumeGroupSnapshotResponse> Create(
      const csi::v1::CreateVolumeGroupSnapshotRequest& request, const Call& call);
  absl::StatusOr<csi::v1::DeleteVolumeGroupSnapshotResponse> Delete(
      const csi::v1::DeleteVolumeGroupSnapshotRequest& request, const Call& call);
  absl::StatusOr<csi::v1::GetVolumeGroupSnapshotResponse> Get(const csi::v1::GetVolumeGroupSnapshotRequest& request);

  SnapshotCatalog& snapshots_;
  Rpc& rpc_;
};

}  // namespace mooring

#endif  // MOORING_PLUGIN_API_GROUP_CONTROLLER_SERVICE_H_
