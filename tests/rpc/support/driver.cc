#include "tests/rpc/support/driver.h"

#include <algorithm>

#include "base/socket_path.h"

namespace mooring::testing {
namespace {

// Rules of CSI for every error, checked on every answer that any test gets.
absl::Status Checked(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  EXPECT_FALSE(status.error_message().empty()) << "an error without a message, code " << status.error_code();
  EXPECT_TRUE(status.error_details().empty()) << status.error_message();
  EXPECT_NE(status.error_code(), grpc::StatusCode::UNKNOWN) << status.error_message();
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

}  // namespace

VolumeCapability Mount(const std::string& fs_type, AccessMode::Mode mode, const std::vector<std::string>& flags) {
  VolumeCapability capability;
  capability.mutable_mount()->set_fs_type(fs_type);
  capability.mutable_mount()->mutable_mount_flags()->Assign(flags.begin(), flags.end());
  capability.mutable_access_mode()->set_mode(mode);
  return capability;
}

VolumeCapability Block(AccessMode::Mode mode) {
  VolumeCapability capability;
  capability.mutable_block();
  capability.mutable_access_mode()->set_mode(mode);
  return capability;
}

VolumeCapability WithGroup(VolumeCapability capability, const std::string& group) {
  capability.mutable_mount()->set_volume_mount_group(group);
  return capability;
}

void Driver::Connect() {
  grpc::ChannelArguments arguments;
  arguments.SetInt("grpc.use_local_subchannel_pool", 1);  // no connection, and no backoff, of a channel before
  arguments.SetMaxSendMessageSize(-1);
  const auto channel = grpc::CreateCustomChannel(GrpcTarget(socket_), grpc::InsecureChannelCredentials(), arguments);
  identity_ = csi::v1::Identity::NewStub(channel);
  controller_ = csi::v1::Controller::NewStub(channel);
  group_ = csi::v1::GroupController::NewStub(channel);
  node_ = csi::v1::Node::NewStub(channel);
}

void Driver::Disconnect() {
  identity_.reset();
  controller_.reset();
  group_.reset();
  node_.reset();
}

template <typename Stub, typename Request, typename Response>
Answer<Response> Driver::Invoke(Stub& stub,
                                grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                                const Request& request) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + deadline_);
  Answer<Response> answer;
  answer.status = Checked((stub.*method)(&context, request, &answer.response));
  return answer;
}

void Driver::Note(std::vector<std::pair<std::string, std::string>>& list, const std::string& id,
                  const std::string& path) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::pair<std::string, std::string> entry(id, path);
  if (std::find(list.begin(), list.end(), entry) == list.end()) list.push_back(entry);
}

Driver::Done Driver::TakeDone() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::exchange(done_, {});
}

Answer<csi::v1::CreateVolumeResponse> Driver::Create(const std::string& name, const VolumeCapability& capability,
                                                     std::int64_t bytes) {
  csi::v1::CreateVolumeRequest request;
  request.set_name(name);
  request.mutable_capacity_range()->set_required_bytes(bytes);
  *request.add_volume_capabilities() = capability;
  return Send(request);
}

Answer<csi::v1::DeleteVolumeResponse> Driver::Delete(const std::string& id) {
  csi::v1::DeleteVolumeRequest request;
  request.set_volume_id(id);
  return Send(request);
}

Answer<csi::v1::ControllerPublishVolumeResponse> Driver::Attach(const std::string& id, const std::string& node,
                                                                const VolumeCapability& capability, bool read_only) {
  csi::v1::ControllerPublishVolumeRequest request;
  request.set_volume_id(id);
  request.set_node_id(node);
  *request.mutable_volume_capability() = capability;
  request.set_readonly(read_only);
  return Send(request);
}

Answer<csi::v1::ControllerUnpublishVolumeResponse> Driver::Detach(const std::string& id, const std::string& node) {
  csi::v1::ControllerUnpublishVolumeRequest request;
  request.set_volume_id(id);
  request.set_node_id(node);
  return Send(request);
}

Answer<csi::v1::ControllerExpandVolumeResponse> Driver::Grow(const std::string& id, std::int64_t bytes) {
  csi::v1::ControllerExpandVolumeRequest request;
  request.set_volume_id(id);
  request.mutable_capacity_range()->set_required_bytes(bytes);
  return Send(request);
}

Answer<csi::v1::ListVolumesResponse> Driver::List() { return Send(csi::v1::ListVolumesRequest()); }

Answer<csi::v1::NodeStageVolumeResponse> Driver::Stage(const std::string& id, const std::string& path,
                                                       const VolumeCapability& capability) {
  csi::v1::NodeStageVolumeRequest request;
  request.set_volume_id(id);
  request.set_staging_target_path(path);
  *request.mutable_volume_capability() = capability;
  return Send(request);
}

Answer<csi::v1::NodeUnstageVolumeResponse> Driver::Unstage(const std::string& id, const std::string& path) {
  csi::v1::NodeUnstageVolumeRequest request;
  request.set_volume_id(id);
  request.set_staging_target_path(path);
  return Send(request);
}

Answer<csi::v1::NodePublishVolumeResponse> Driver::Publish(const std::string& id, const std::string& staging,
                                                           const std::string& target,
                                                           const VolumeCapability& capability, bool read_only) {
  csi::v1::NodePublishVolumeRequest request;
  request.set_volume_id(id);
  request.set_staging_target_path(staging);
  request.set_target_path(target);
  *request.mutable_volume_capability() = capability;
  request.set_readonly(read_only);
  return Send(request);
}

Answer<csi::v1::NodeUnpublishVolumeResponse> Driver::Unpublish(const std::string& id, const std::string& target) {
  csi::v1::NodeUnpublishVolumeRequest request;
  request.set_volume_id(id);
  request.set_target_path(target);
  return Send(request);
}

Answer<csi::v1::NodeGetVolumeStatsResponse> Driver::Stats(const std::string& id, const std::string& path) {
  csi::v1::NodeGetVolumeStatsRequest request;
  request.set_volume_id(id);
  request.set_volume_path(path);
  return Send(request);
}

Answer<csi::v1::NodeExpandVolumeResponse> Driver::NodeExpand(const std::string& id, const std::string& path,
                                                             std::int64_t bytes) {
  csi::v1::NodeExpandVolumeRequest request;
  request.set_volume_id(id);
  request.set_volume_path(path);
  if (bytes != 0) request.mutable_capacity_range()->set_required_bytes(bytes);
  return Send(request);
}

// What is to be taken back is noted.

Answer<csi::v1::CreateVolumeResponse> Driver::Send(const csi::v1::CreateVolumeRequest& request) {
  auto answer = Invoke(*controller_, &csi::v1::Controller::Stub::CreateVolume, request);
  if (!answer.status.ok()) return answer;
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::string& id = answer->volume().volume_id();
  if (std::find(done_.created.begin(), done_.created.end(), id) == done_.created.end()) done_.created.push_back(id);
  return answer;
}

Answer<csi::v1::NodeStageVolumeResponse> Driver::Send(const csi::v1::NodeStageVolumeRequest& request) {
  auto answer = Invoke(*node_, &csi::v1::Node::Stub::NodeStageVolume, request);
  if (answer.status.ok()) Note(done_.staged, request.volume_id(), request.staging_target_path());
  return answer;
}

Answer<csi::v1::NodePublishVolumeResponse> Driver::Send(const csi::v1::NodePublishVolumeRequest& request) {
  auto answer = Invoke(*node_, &csi::v1::Node::Stub::NodePublishVolume, request);
  if (answer.status.ok()) Note(done_.published, request.volume_id(), request.target_path());
  return answer;
}

// The rest is passed on.

Answer<csi::v1::GetPluginInfoResponse> Driver::Send(const csi::v1::GetPluginInfoRequest& request) {
  return Invoke(*identity_, &csi::v1::Identity::Stub::GetPluginInfo, request);
}
Answer<csi::v1::GetPluginCapabilitiesResponse> Driver::Send(const csi::v1::GetPluginCapabilitiesRequest& request) {
  return Invoke(*identity_, &csi::v1::Identity::Stub::GetPluginCapabilities, request);
}
Answer<csi::v1::ProbeResponse> Driver::Send(const csi::v1::ProbeRequest& request) {
  return Invoke(*identity_, &csi::v1::Identity::Stub::Probe, request);
}
Answer<csi::v1::DeleteVolumeResponse> Driver::Send(const csi::v1::DeleteVolumeRequest& request) {
  return Invoke(*controller_, &csi::v1::Controller::Stub::DeleteVolume, request);
}
Answer<csi::v1::ControllerPublishVolumeResponse> Driver::Send(const csi::v1::ControllerPublishVolumeRequest& request) {
  return Invoke(*controller_, &csi::v1::Controller::Stub::ControllerPublishVolume, request);
}
Answer<csi::v1::ControllerUnpublishVolumeResponse> Driver::Send(
    const csi::v1::ControllerUnpublishVolumeRequest& request) {
  return Invoke(*controller_, &csi::v1::Controller::Stub::ControllerUnpublishVolume, request);
}
Answer<csi::v1::ValidateVolumeCapabilitiesResponse> Driver::Send(
    const csi::v1::ValidateVolumeCapabilitiesRequest& request) {
  return Invoke(*controller_, &csi::v1::Controller::Stub::ValidateVolumeCapabilities, request);
}
Answer<csi::v1::ListVolumesResponse> Driver::Send(const csi::v1::ListVolumesRequest& request) {
  return Invoke(*controller_, &csi::v1::Controller::Stub::ListVolumes, request);
}
Answer<csi::v1::GetCapacityResponse> Driver::Send(const csi::v1::GetCapacityRequest& request) {
  return Invoke(*controller_, &csi::v1::Controller::Stub::GetCapacity, request);
}
Answer<csi::v1::ControllerGetCapabilitiesResponse> Driver::Send(
    const csi::v1::ControllerGetCapabilitiesRequest& request) {
  return Invoke(*controller_, &csi::v1::Controller::Stub::ControllerGetCapabilities, request);
}
Answer<csi::v1::ControllerExpandVolumeResponse> Driver::Send(const csi::v1::ControllerExpandVolumeRequest& request) {
  return Invoke(*controller_, &csi::v1::Controller::Stub::ControllerExpandVolume, request);
}
Answer<csi::v1::ControllerGetVolumeResponse> Driver::Send(const csi::v1::ControllerGetVolumeRequest& request) {
  return Invoke(*controller_, &csi::v1::Controller::Stub::ControllerGetVolume, request);
}
Answer<csi::v1::ControllerModifyVolumeResponse> Driver::Send(const csi::v1::ControllerModifyVolumeRequest& request) {
  return Invoke(*controller_, &csi::v1::Controller::Stub::ControllerModifyVolume, request);
}
Answer<csi::v1::CreateSnapshotResponse> Driver::Send(const csi::v1::CreateSnapshotRequest& request) {
  return Invoke(*controller_, &csi::v1::Controller::Stub::CreateSnapshot, request);
}
Answer<csi::v1::DeleteSnapshotResponse> Driver::Send(const csi::v1::DeleteSnapshotRequest& request) {
  return Invoke(*controller_, &csi::v1::Controller::Stub::DeleteSnapshot, request);
}
Answer<csi::v1::ListSnapshotsResponse> Driver::Send(const csi::v1::ListSnapshotsRequest& request) {
  return Invoke(*controller_, &csi::v1::Controller::Stub::ListSnapshots, request);
}
Answer<csi::v1::GetSnapshotResponse> Driver::Send(const csi::v1::GetSnapshotRequest& request) {
  return Invoke(*controller_, &csi::v1::Controller::Stub::GetSnapshot, request);
}
Answer<csi::v1::GroupControllerGetCapabilitiesResponse> Driver::Send(
    const csi::v1::GroupControllerGetCapabilitiesRequest& request) {
  return Invoke(*group_, &csi::v1::GroupController::Stub::GroupControllerGetCapabilities, request);
}
Answer<csi::v1::CreateVolumeGroupSnapshotResponse> Driver::Send(
    const csi::v1::CreateVolumeGroupSnapshotRequest& request) {
  return Invoke(*group_, &csi::v1::GroupController::Stub::CreateVolumeGroupSnapshot, request);
}
Answer<csi::v1::DeleteVolumeGroupSnapshotResponse> Driver::Send(
    const csi::v1::DeleteVolumeGroupSnapshotRequest& request) {
  return Invoke(*group_, &csi::v1::GroupController::Stub::DeleteVolumeGroupSnapshot, request);
}
Answer<csi::v1::GetVolumeGroupSnapshotResponse> Driver::Send(const csi::v1::GetVolumeGroupSnapshotRequest& request) {
  return Invoke(*group_, &csi::v1::GroupController::Stub::GetVolumeGroupSnapshot, request);
}
Answer<csi::v1::NodeUnstageVolumeResponse> Driver::Send(const csi::v1::NodeUnstageVolumeRequest& request) {
  return Invoke(*node_, &csi::v1::Node::Stub::NodeUnstageVolume, request);
}
Answer<csi::v1::NodeUnpublishVolumeResponse> Driver::Send(const csi::v1::NodeUnpublishVolumeRequest& request) {
  return Invoke(*node_, &csi::v1::Node::Stub::NodeUnpublishVolume, request);
}
Answer<csi::v1::NodeGetVolumeStatsResponse> Driver::Send(const csi::v1::NodeGetVolumeStatsRequest& request) {
  return Invoke(*node_, &csi::v1::Node::Stub::NodeGetVolumeStats, request);
}
Answer<csi::v1::NodeExpandVolumeResponse> Driver::Send(const csi::v1::NodeExpandVolumeRequest& request) {
  return Invoke(*node_, &csi::v1::Node::Stub::NodeExpandVolume, request);
}
Answer<csi::v1::NodeGetCapabilitiesResponse> Driver::Send(const csi::v1::NodeGetCapabilitiesRequest& request) {
  return Invoke(*node_, &csi::v1::Node::Stub::NodeGetCapabilities, request);
}
Answer<csi::v1::NodeGetInfoResponse> Driver::Send(const csi::v1::NodeGetInfoRequest& request) {
  return Invoke(*node_, &csi::v1::Node::Stub::NodeGetInfo, request);
}

}  // namespace mooring::testing
