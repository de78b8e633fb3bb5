#include "tests/rpc/support/driver.h"

#include <algorithm>

#include "base/socket_path.h"

namespace mooring::testing {
namespace {

// Checks the rules of CSI for errors, on each answer of each test.
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

CreateVolumeRequest CreateRequest(const std::string& name, const VolumeCapability& capability, std::int64_t bytes,
                                  const Parameters& parameters) {
  CreateVolumeRequest request;
  request.set_name(name);
  *request.add_volume_capabilities() = capability;
  if (bytes != 0) request.mutable_capacity_range()->set_required_bytes(bytes);
  request.mutable_parameters()->insert(parameters.begin(), parameters.end());
  return request;
}

CreateVolumeRequest CopyRequest(const std::string& name, const std::string& source, const VolumeCapability& capability,
                                std::int64_t bytes, const Parameters& parameters) {
  CreateVolumeRequest request = CreateRequest(name, capability, bytes, parameters);
  auto& content = *request.mutable_volume_content_source();
  if (source.starts_with("snap-")) {
    content.mutable_snapshot()->set_snapshot_id(source);
  } else {
    content.mutable_volume()->set_volume_id(source);
  }
  return request;
}

NodeStageVolumeRequest StageRequest(const std::string& id, const std::string& path,
                                    const VolumeCapability& capability) {
  NodeStageVolumeRequest request;
  request.set_volume_id(id);
  request.set_staging_target_path(path);
  *request.mutable_volume_capability() = capability;
  return request;
}

NodePublishVolumeRequest PublishRequest(const std::string& id, const std::string& staging, const std::string& target,
                                        const VolumeCapability& capability, bool read_only) {
  NodePublishVolumeRequest request;
  request.set_volume_id(id);
  request.set_staging_target_path(staging);
  request.set_target_path(target);
  *request.mutable_volume_capability() = capability;
  request.set_readonly(read_only);
  return request;
}

ValidateVolumeCapabilitiesRequest ValidateRequest(const std::string& id, const VolumeCapability& capability) {
  ValidateVolumeCapabilitiesRequest request;
  request.set_volume_id(id);
  *request.add_volume_capabilities() = capability;
  return request;
}

void Driver::Connect() {
  grpc::ChannelArguments arguments;
  arguments.SetInt("grpc.use_local_subchannel_pool", 1);  // shares no connection and no backoff with an earlier channel
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

template <typename Entry>
void Driver::NoteOnce(std::vector<Entry>& list, const Entry& entry) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (std::find(list.begin(), list.end(), entry) == list.end()) list.push_back(entry);
}

void Driver::Note(const CreateVolumeRequest&, const csi::v1::CreateVolumeResponse& response) {
  NoteOnce(done_.created, response.volume().volume_id());
}
void Driver::Note(const csi::v1::CreateSnapshotRequest&, const csi::v1::CreateSnapshotResponse& response) {
  NoteOnce(done_.snapshots, response.snapshot().snapshot_id());
}
void Driver::Note(const NodeStageVolumeRequest& request, const csi::v1::NodeStageVolumeResponse&) {
  NoteOnce(done_.staged, {request.volume_id(), request.staging_target_path()});
}
void Driver::Note(const NodePublishVolumeRequest& request, const csi::v1::NodePublishVolumeResponse&) {
  NoteOnce(done_.published, {request.volume_id(), request.target_path()});
}

template <typename Stub, typename Request, typename Response>
Answer<Response> Driver::Invoke(Stub& stub,
                                grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                                const Request& request) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + deadline_);
  Answer<Response> answer;
  answer.status = Checked((stub.*method)(&context, request, &answer.response));
  if (answer.status.ok()) Note(request, answer.response);
  return answer;
}

#define MOORING_DEFINE_SEND(stub, service, method)                                          \
  Answer<csi::v1::method##Response> Driver::Send(const csi::v1::method##Request& request) { \
    return Invoke(*(stub), &csi::v1::service::Stub::method, request);                       \
  }
MOORING_CSI_RPCS(MOORING_DEFINE_SEND)
#undef MOORING_DEFINE_SEND

Driver::Done Driver::TakeDone() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::exchange(done_, {});
}

Answer<csi::v1::CreateVolumeResponse> Driver::Create(const std::string& name, const VolumeCapability& capability,
                                                     std::int64_t bytes) {
  return Send(CreateRequest(name, capability, bytes));
}

Answer<csi::v1::DeleteVolumeResponse> Driver::Delete(const std::string& id) {
  csi::v1::DeleteVolumeRequest request;
  request.set_volume_id(id);
  return Send(request);
}

Answer<csi::v1::ControllerPublishVolumeResponse> Driver::Attach(const std::string& id, const std::string& node,
                                                                const VolumeCapability& capability, bool read_only) {
  ControllerPublishVolumeRequest request;
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
  ControllerExpandVolumeRequest request;
  request.set_volume_id(id);
  request.mutable_capacity_range()->set_required_bytes(bytes);
  return Send(request);
}

Answer<csi::v1::ListVolumesResponse> Driver::List() { return Send(ListVolumesRequest()); }

Answer<csi::v1::NodeStageVolumeResponse> Driver::Stage(const std::string& id, const std::string& path,
                                                       const VolumeCapability& capability) {
  return Send(StageRequest(id, path, capability));
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
  return Send(PublishRequest(id, staging, target, capability, read_only));
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
  NodeExpandVolumeRequest request;
  request.set_volume_id(id);
  request.set_volume_path(path);
  if (bytes != 0) request.mutable_capacity_range()->set_required_bytes(bytes);
  return Send(request);
}

Answer<csi::v1::ControllerGetVolumeResponse> Driver::Get(const std::string& id) {
  csi::v1::ControllerGetVolumeRequest request;
  request.set_volume_id(id);
  return Send(request);
}

Answer<csi::v1::CreateSnapshotResponse> Driver::Snap(const std::string& name, const std::string& volume) {
  csi::v1::CreateSnapshotRequest request;
  request.set_name(name);
  request.set_source_volume_id(volume);
  return Send(request);
}

Answer<csi::v1::DeleteSnapshotResponse> Driver::DeleteSnapshot(const std::string& id) {
  csi::v1::DeleteSnapshotRequest request;
  request.set_snapshot_id(id);
  return Send(request);
}

std::int64_t Driver::Available(const std::string& pool) {
  GetCapacityRequest request;
  (*request.mutable_parameters())["pool"] = pool;
  return Send(request)->available_capacity();
}

}  // namespace mooring::testing
