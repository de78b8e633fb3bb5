// csi.v1.Controller: parses requests, calls the catalogs, converts the results. NodeVolumes knows the mounts of this
// node.
#ifndef MOORING_PLUGIN_API_CONTROLLER_SERVICE_H_
#define MOORING_PLUGIN_API_CONTROLLER_SERVICE_H_

#include "absl/status/statusor.h"
#include "csi.grpc.pb.h"
#include "plugin/api/rpc.h"
#include "plugin/catalog/snapshot_catalog.h"
#include "plugin/catalog/volume_catalog.h"
#include "plugin/model/call.h"
#include "plugin/node/node_volumes.h"

namespace mooring {

class ControllerService final : public csi::v1::Controller::Service {
 public:
  // Optional features. `grows`: ControllerExpandVolume is offered. `has_snapshots`: at least one pool makes snapshots
  // and copies.
  struct Offers {
    bool grows = true, has_snapshots = true;
  };

  // All references outlive the service.
  ControllerService(VolumeCatalog& catalog, SnapshotCatalog& snapshots, NodeVolumes& uses, Offers offers, Rpc& rpc)
      : catalog_(catalog), snapshots_(snapshots), uses_(uses), offers_(offers), rpc_(rpc) {}

  grpc::Status CreateVolume(grpc::ServerContext* context, const csi::v1::CreateVolumeRequest* request,
                            csi::v1::CreateVolumeResponse* response) override {
    return rpc_.Serve(context, *request, response, [&](const Call& call) { return Create(*request, call); });
  }
  grpc::Status DeleteVolume(grpc::ServerContext* context, const csi::v1::DeleteVolumeRequest* request,
                            csi::v1::DeleteVolumeResponse* response) override {
    return rpc_.Serve(context, *request, response, [&](const Call& call) { return Delete(*request, call); });
  }
  grpc::Status ControllerPublishVolume(grpc::ServerContext* context,
                                       const csi::v1::ControllerPublishVolumeRequest* request,
                                       csi::v1::ControllerPublishVolumeResponse* response) override {
    return rpc_.Serve(context, *request, response, [&](const Call& call) { return Publish(*request, call); });
  }
  grpc::Status ControllerUnpublishVolume(grpc::ServerContext* context,
                                         const csi::v1::ControllerUnpublishVolumeRequest* request,
                                         csi::v1::ControllerUnpublishVolumeResponse* response) override {
    return rpc_.Serve(context, *request, response, [&](const Call& call) { return Unpublish(*request, call); });
  }
  grpc::Status ValidateVolumeCapabilities(grpc::ServerContext* context,
                                          const csi::v1::ValidateVolumeCapabilitiesRequest* request,
                                          csi::v1::ValidateVolumeCapabilitiesResponse* response) override {
    return rpc_.Serve(context, *request, response, [&](const Call&) { return Validate(*request); });
  }
  grpc::Status ListVolumes(grpc::ServerContext* context, const csi::v1::ListVolumesRequest* request,
                           csi::v1::ListVolumesResponse* response) override {
    return rpc_.Serve(context, *request, response, [&](const Call&) { return List(*request); });
  }
  grpc::Status GetCapacity(grpc::ServerContext* context, const csi::v1::GetCapacityRequest* request,
                           csi::v1::GetCapacityResponse* response) override {
    return rpc_.Serve(context, *request, response, [&](const Call&) { return Capacity(*request); });
  }
  grpc::Status ControllerGetCapabilities(grpc::ServerContext* context,
                                         const csi::v1::ControllerGetCapabilitiesRequest* request,
                                         csi::v1::ControllerGetCapabilitiesResponse* response) override {
    return rpc_.Serve(
        context, *request, response, [&](const Call&) { return Capabilities(); }, Rpc::When::kAlways);
  }
  grpc::Status ControllerExpandVolume(grpc::ServerContext* context,
                                      const csi::v1::ControllerExpandVolumeRequest* request,
                                      csi::v1::ControllerExpandVolumeResponse* response) override {
    return rpc_.Serve(context, *request, response, [&](const Call& call) { return Expand(*request, call); });
  }
  grpc::Status ControllerGetVolume(grpc::ServerContext* context, const csi::v1::ControllerGetVolumeRequest* request,
                                   csi::v1::ControllerGetVolumeResponse* response) override {
    return rpc_.Serve(context, *request, response, [&](const Call&) { return Get(*request); });
  }
  grpc::Status ControllerModifyVolume(grpc::ServerContext* context,
                                      const csi::v1::ControllerModifyVolumeRequest* request,
                                      csi::v1::ControllerModifyVolumeResponse* response) override {
    return rpc_.Serve(context, *request, response, [&](const Call& call) { return Modify(*request, call); });
  }
  grpc::Status CreateSnapshot(grpc::ServerContext* context, const csi::v1::CreateSnapshotRequest* request,
                              csi::v1::CreateSnapshotResponse* response) override {
    return rpc_.Serve(context, *request, response, [&](const Call& call) { return CreateSnapshot(*request, call); });
  }
  grpc::Status DeleteSnapshot(grpc::ServerContext* context, const csi::v1::DeleteSnapshotRequest* request,
                              csi::v1::DeleteSnapshotResponse* response) override {
    return rpc_.Serve(context, *request, response, [&](const Call& call) { return DeleteSnapshot(*request, call); });
  }
  grpc::Status ListSnapshots(grpc::ServerContext* context, const csi::v1::ListSnapshotsRequest* request,
                             csi::v1::ListSnapshotsResponse* response) override {
    return rpc_.Serve(context, *request, response, [&](const Call&) { return ListSnapshots(*request); });
  }
  grpc::Status GetSnapshot(grpc::ServerContext* context, const csi::v1::GetSnapshotRequest* request,
                           csi::v1::GetSnapshotResponse* response) override {
    return rpc_.Serve(context, *request, response, [&](const Call&) { return GetSnapshot(*request); });
  }

 private:
  absl::StatusOr<csi::v1::CreateVolumeResponse> Create(const csi::v1::CreateVolumeRequest& request, const Call& call);
  absl::StatusOr<csi::v1::DeleteVolumeResponse> Delete(const csi::v1::DeleteVolumeRequest& request, const Call& call);
  absl::StatusOr<csi::v1::ControllerPublishVolumeResponse> Publish(
      const csi::v1::ControllerPublishVolumeRequest& request, const Call& call);
  absl::StatusOr<csi::v1::ControllerUnpublishVolumeResponse> Unpublish(
      const csi::v1::ControllerUnpublishVolumeRequest& request, const Call& call);
  absl::StatusOr<csi::v1::ValidateVolumeCapabilitiesResponse> Validate(
      const csi::v1::ValidateVolumeCapabilitiesRequest& request);
  absl::StatusOr<csi::v1::ListVolumesResponse> List(const csi::v1::ListVolumesRequest& request);
  absl::StatusOr<csi::v1::GetCapacityResponse> Capacity(const csi::v1::GetCapacityRequest& request);
  absl::StatusOr<csi::v1::ControllerGetCapabilitiesResponse> Capabilities();
  absl::StatusOr<csi::v1::ControllerExpandVolumeResponse> Expand(const csi::v1::ControllerExpandVolumeRequest& request,
                                                                 const Call& call);
  absl::StatusOr<csi::v1::ControllerGetVolumeResponse> Get(const csi::v1::ControllerGetVolumeRequest& request);
  absl::StatusOr<csi::v1::CreateSnapshotResponse> CreateSnapshot(const csi::v1::CreateSnapshotRequest& request,
                                                                 const Call& call);
  absl::StatusOr<csi::v1::DeleteSnapshotResponse> DeleteSnapshot(const csi::v1::DeleteSnapshotRequest& request,
                                                                 const Call& call);
  absl::StatusOr<csi::v1::ListSnapshotsResponse> ListSnapshots(const csi::v1::ListSnapshotsRequest& request);
  absl::StatusOr<csi::v1::GetSnapshotResponse> GetSnapshot(const csi::v1::GetSnapshotRequest& request);

  absl::StatusOr<csi::v1::ControllerModifyVolumeResponse> Modify(const csi::v1::ControllerModifyVolumeRequest& request,
                                                                 const Call& call);

  void Pack(const VolumeInfo& info, csi::v1::Volume& volume) const;

  VolumeCatalog& catalog_;
  SnapshotCatalog& snapshots_;
  NodeVolumes& uses_;
  const Offers offers_;
  Rpc& rpc_;
};

}  // namespace mooring

#endif  // MOORING_PLUGIN_API_CONTROLLER_SERVICE_H_
