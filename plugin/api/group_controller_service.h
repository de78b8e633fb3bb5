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
                                              csi::v1::GroupControllerGetCapabilitiesResponse* response) override;
  grpc::Status CreateVolumeGroupSnapshot(grpc::ServerContext* context,
                                         const csi::v1::CreateVolumeGroupSnapshotRequest* request,
                                         csi::v1::CreateVolumeGroupSnapshotResponse* response) override;
  grpc::Status DeleteVolumeGroupSnapshot(grpc::ServerContext* context,
                                         const csi::v1::DeleteVolumeGroupSnapshotRequest* request,
                                         csi::v1::DeleteVolumeGroupSnapshotResponse* response) override;
  grpc::Status GetVolumeGroupSnapshot(grpc::ServerContext* context,
                                      const csi::v1::GetVolumeGroupSnapshotRequest* request,
                                      csi::v1::GetVolumeGroupSnapshotResponse* response) override;

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
