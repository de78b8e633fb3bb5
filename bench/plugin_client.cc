#include "bench/plugin_client.h"

#include <chrono>
#include <stdexcept>
#include <thread>

namespace mooring::bench {
namespace {

using csi::v1::VolumeCapability;

void Check(const char* call, const grpc::Status& status) {
  if (!status.ok()) throw std::runtime_error(call + (": " + status.error_message()));
}

// For calls that a driver without the service or the capability does not have.
bool IsOffered(const char* call, const grpc::Status& status) {
  if (status.error_code() == grpc::StatusCode::UNIMPLEMENTED) return false;
  Check(call, status);
  return true;
}

void SetCapability(VolumeCapability& capability, const std::string& fs_type) {
  capability.mutable_mount()->set_fs_type(fs_type);
  capability.mutable_access_mode()->set_mode(VolumeCapability::AccessMode::SINGLE_NODE_WRITER);
}

// Channels with equal arguments share one connection, unless each has a pool of its own.
std::shared_ptr<grpc::Channel> Connect(const std::string& socket) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel("unix:" + socket, grpc::InsecureChannelCredentials(), arguments);
}

}  // namespace

PluginClient::PluginClient(const std::string& socket)
    : channel_(Connect(socket)),
      identity_(csi::v1::Identity::NewStub(channel_)),
      controller_(csi::v1::Controller::NewStub(channel_)),
      node_(csi::v1::Node::NewStub(channel_)) {}

void PluginClient::AwaitReady() {
  grpc::Status status;
  for (int attempt = 0; attempt < 1000; ++attempt) {
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    csi::v1::ProbeResponse response;
    status = identity_->Probe(&context, {}, &response);
    if (status.ok() && (!response.has_ready() || response.ready().value())) return;  // optional, CSI 1.12, Probe
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  throw std::runtime_error("the driver does not become ready: " + status.error_message());
}

Offers PluginClient::Ask() {
  using ControllerRpc = csi::v1::ControllerServiceCapability::RPC;
  using NodeRpc = csi::v1::NodeServiceCapability::RPC;
  Offers offers;
  grpc::ClientContext controller_context, node_context;
  csi::v1::ControllerGetCapabilitiesResponse controller;
  csi::v1::NodeGetCapabilitiesResponse node;
  IsOffered("ControllerGetCapabilities", controller_->ControllerGetCapabilities(&controller_context, {}, &controller));
  offers.node = IsOffered("NodeGetCapabilities", node_->NodeGetCapabilities(&node_context, {}, &node));
  for (const auto& capability : controller.capabilities()) {
    if (capability.rpc().type() == ControllerRpc::CREATE_DELETE_VOLUME) offers.create_delete = true;
  }
  for (const auto& capability : node.capabilities()) {
    if (capability.rpc().type() == NodeRpc::STAGE_UNSTAGE_VOLUME) offers.stage_unstage = true;
    if (capability.rpc().type() == NodeRpc::GET_VOLUME_STATS) offers.stats = true;
  }
  return offers;
}

void PluginClient::Probe() {
  grpc::ClientContext context;
  csi::v1::ProbeResponse response;
  Check("Probe", identity_->Probe(&context, {}, &response));
}

std::string PluginClient::Create(const std::string& name, const std::string& fs_type) {
  grpc::ClientContext context;
  csi::v1::CreateVolumeRequest request;
  csi::v1::CreateVolumeResponse response;
  request.set_name(name);
  request.mutable_capacity_range()->set_required_bytes(std::int64_t{1} << 30);
  SetCapability(*request.add_volume_capabilities(), fs_type);
  Check("CreateVolume", controller_->CreateVolume(&context, request, &response));
  volumes_[response.volume().volume_id()] = response.volume();
  return response.volume().volume_id();
}

void PluginClient::Delete(const std::string& id) {
  grpc::ClientContext context;
  csi::v1::DeleteVolumeRequest request;
  csi::v1::DeleteVolumeResponse response;
  request.set_volume_id(id);
  Check("DeleteVolume", controller_->DeleteVolume(&context, request, &response));
  volumes_.erase(id);
}

// Stage and publish get what CreateVolume answered, CSI 1.12, "volume_context".
template <typename Request>
void PluginClient::SetContext(const std::string& id, Request& request) const {
  const auto volume = volumes_.find(id);
  if (volume != volumes_.end()) *request.mutable_volume_context() = volume->second.volume_context();
}

void PluginClient::Stage(const std::string& id, const std::string& path) {
  grpc::ClientContext context;
  csi::v1::NodeStageVolumeRequest request;
  csi::v1::NodeStageVolumeResponse response;
  request.set_volume_id(id);
  request.set_staging_target_path(path);
  SetCapability(*request.mutable_volume_capability(), "");
  SetContext(id, request);
  Check("NodeStageVolume", node_->NodeStageVolume(&context, request, &response));
}

void PluginClient::Unstage(const std::string& id, const std::string& path) {
  grpc::ClientContext context;
  csi::v1::NodeUnstageVolumeRequest request;
  csi::v1::NodeUnstageVolumeResponse response;
  request.set_volume_id(id);
  request.set_staging_target_path(path);
  Check("NodeUnstageVolume", node_->NodeUnstageVolume(&context, request, &response));
}

void PluginClient::Publish(const std::string& id, const std::string& staging, const std::string& target,
                           bool read_only) {
  grpc::ClientContext context;
  csi::v1::NodePublishVolumeRequest request;
  csi::v1::NodePublishVolumeResponse response;
  request.set_volume_id(id);
  request.set_staging_target_path(staging);
  request.set_target_path(target);
  request.set_readonly(read_only);
  SetCapability(*request.mutable_volume_capability(), "");
  SetContext(id, request);
  Check("NodePublishVolume", node_->NodePublishVolume(&context, request, &response));
}

void PluginClient::Unpublish(const std::string& id, const std::string& target) {
  grpc::ClientContext context;
  csi::v1::NodeUnpublishVolumeRequest request;
  csi::v1::NodeUnpublishVolumeResponse response;
  request.set_volume_id(id);
  request.set_target_path(target);
  Check("NodeUnpublishVolume", node_->NodeUnpublishVolume(&context, request, &response));
}

void PluginClient::Stats(const std::string& id, const std::string& path) {
  grpc::ClientContext context;
  csi::v1::NodeGetVolumeStatsRequest request;
  csi::v1::NodeGetVolumeStatsResponse response;
  request.set_volume_id(id);
  request.set_volume_path(path);
  Check("NodeGetVolumeStats", node_->NodeGetVolumeStats(&context, request, &response));
}

}  // namespace mooring::bench
