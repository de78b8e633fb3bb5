#include "plugin/api/group_controller_service.h"

#include "base/status.h"
#include "plugin/api/snapshot_requests.h"

namespace mooring {

grpc::Status GroupControllerService::GroupControllerGetCapabilities(
    grpc::ServerContext* context, const csi::v1::GroupControllerGetCapabilitiesRequest* request,
    csi::v1::GroupControllerGetCapabilitiesResponse* response) {
  using Response = csi::v1::GroupControllerGetCapabilitiesResponse;
  const auto capabilities = [](const Call&) -> absl::StatusOr<Response> {
    Response answer;
    answer.add_capabilities()->mutable_rpc()->set_type(
        csi::v1::GroupControllerServiceCapability::RPC::CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT);
    return answer;
  };
  return rpc_.Serve(context, *request, response, capabilities, Rpc::When::kAlways);
}

grpc::Status GroupControllerService::CreateVolumeGroupSnapshot(grpc::ServerContext* context,
                                                               const csi::v1::CreateVolumeGroupSnapshotRequest* request,
                                                               csi::v1::CreateVolumeGroupSnapshotResponse* response) {
  return rpc_.Serve(context, *request, response, [&](const Call& call) { return Create(*request, call); });
}

grpc::Status GroupControllerService::DeleteVolumeGroupSnapshot(grpc::ServerContext* context,
                                                               const csi::v1::DeleteVolumeGroupSnapshotRequest* request,
                                                               csi::v1::DeleteVolumeGroupSnapshotResponse* response) {
  return rpc_.Serve(context, *request, response, [&](const Call& call) { return Delete(*request, call); });
}

grpc::Status GroupControllerService::GetVolumeGroupSnapshot(grpc::ServerContext* context,
                                                            const csi::v1::GetVolumeGroupSnapshotRequest* request,
                                                            csi::v1::GetVolumeGroupSnapshotResponse* response) {
  return rpc_.Serve(context, *request, response, [&](const Call&) { return Get(*request); });
}

absl::StatusOr<csi::v1::CreateVolumeGroupSnapshotResponse> GroupControllerService::Create(
    const csi::v1::CreateVolumeGroupSnapshotRequest& request, const Call& call) {
  MOORING_ASSIGN_OR_RETURN(const CreateGroupSpec spec, ParseCreateGroup(request));
  MOORING_ASSIGN_OR_RETURN(const GroupInfo group, snapshots_.CreateGroup(spec, call));
  csi::v1::CreateVolumeGroupSnapshotResponse response;
  Pack(group, *response.mutable_group_snapshot());
  return response;
}

absl::StatusOr<csi::v1::DeleteVolumeGroupSnapshotResponse> GroupControllerService::Delete(
    const csi::v1::DeleteVolumeGroupSnapshotRequest& request, const Call& call) {
  MOORING_ASSIGN_OR_RETURN(const GroupSpec spec, ParseDeleteGroup(request));
  MOORING_RETURN_IF_ERROR(snapshots_.DeleteGroup(spec, call));
  return csi::v1::DeleteVolumeGroupSnapshotResponse();
}

absl::StatusOr<csi::v1::GetVolumeGroupSnapshotResponse> GroupControllerService::Get(
    const csi::v1::GetVolumeGroupSnapshotRequest& request) {
  MOORING_ASSIGN_OR_RETURN(const GroupSpec spec, ParseGetGroup(request));
  MOORING_ASSIGN_OR_RETURN(const GroupInfo group, snapshots_.GetGroup(spec));
  csi::v1::GetVolumeGroupSnapshotResponse response;
  Pack(group, *response.mutable_group_snapshot());
  return response;
}

}  // namespace mooring
