#include "plugin/api/group_controller_service.h"

#include "base/status.h"
#include "plugin/api/snapshot_requests.h"

namespace mooring {

absl::StatusOr<csi::v1::GroupControllerGetCapabilitiesResponse> GroupControllerService::Capabilities(
    const csi::v1::GroupControllerGetCapabilitiesRequest&, const Call&) {
  using Type = csi::v1::GroupControllerServiceCapability::RPC;
  csi::v1::GroupControllerGetCapabilitiesResponse response;
  response.add_capabilities()->mutable_rpc()->set_type(Type::CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT);
  return response;
}

absl::StatusOr<csi::v1::CreateVolumeGroupSnapshotResponse> GroupControllerService::Create(
    const csi::v1::CreateVolumeGroupSnapshotRequest& request, const Call& call) {
  MOORING_ASSIGN_OR_RETURN(const CreateGroupSpec spec, ParseCreateGroup(request));
  MOORING_ASSIGN_OR_RETURN(const SnapshotSet group, snapshots_.CreateGroup(spec, call));
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
    const csi::v1::GetVolumeGroupSnapshotRequest& request, const Call&) {
  MOORING_ASSIGN_OR_RETURN(const GroupSpec spec, ParseGetGroup(request));
  MOORING_ASSIGN_OR_RETURN(const SnapshotSet group, snapshots_.GetGroup(spec));
  csi::v1::GetVolumeGroupSnapshotResponse response;
  Pack(group, *response.mutable_group_snapshot());
  return response;
}

}  // namespace mooring
