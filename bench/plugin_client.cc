#include "bench/plugin_client.h"

#include <chrono>
#include <stdexcept>
#include <thread>

namespace mooring::bench {
namespace {

using csi::v1::VolumeCapability;

void Check(const grpc::Status& status) {
  if (!status.ok()) throw std::runtime_error(status.error_message());
}

void SetCapability(VolumeCapability& capability, const std::string& fs_type) {
  capability.mutable_mount()->set_fs_type(fs_type);
  capability.mutable_access_mode()->set_mode(VolumeCapability::AccessMode::SINGLE_NODE_MULTI_WRITER);
}

}  // namespace

PluginClient::PluginClient(const std::string& socket)
    : channel_(grpc::CreateChannel("unix:" + socket, grpc::InsecureChannelCredentials())),
      identity_(csi::v1::Identity::NewStub(channel_)),
      controller_(csi::v1::Controller::NewStub(channel_)),
      node_(csi::v1::Node::NewStub(channel_)) {}

void PluginClient::AwaitReady() {
  for (int attempt = 0; attempt < 1000; ++attempt) {
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    csi::v1::ProbeResponse response;
    if (identity_->Probe(&context, {}, &response).ok() && response.ready().value()) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  throw std::runtime_error("the plugin does not become ready");
}

void PluginClient::Probe() {
  grpc::ClientContext context;
  csi::v1::ProbeResponse response;
  Check(identity_->Probe(&context, {}, &response));
}

std::string PluginClient::Create(const std::string& name, const std::string& fs_type) {
  grpc::ClientContext context;
  csi::v1::CreateVolumeRequest request;
  csi::v1::CreateVolumeResponse response;
  request.set_name(name);
  request.mutable_capacity_range()->set_required_bytes(std::int64_t{1} << 30);
  SetCapability(*request.add_volume_capabilities(), fs_type);
  Check(controller_->CreateVolume(&context, request, &response));
  return response.volume().volume_id();
}

void PluginClient::Delete(const std::string& id) {
  grpc::ClientContext context;
  csi::v1::DeleteVolumeRequest request;
  csi::v1::DeleteVolumeResponse response;
  request.set_volume_id(id);
  Check(controller_->DeleteVolume(&context, request, &response));
}

void PluginClient::Stage(const std::string& id, const std::string& path) {
  grpc::ClientContext context;
  csi::v1::NodeStageVolumeRequest request;
  csi::v1::NodeStageVolumeResponse response;
  request.set_volume_id(id);
  request.set_staging_target_path(path);
  SetCapability(*request.mutable_volume_capability(), "");
  Check(node_->NodeStageVolume(&context, request, &response));
}

void PluginClient::Unstage(const std::string& id, const std::string& path) {
  grpc::ClientContext context;
  csi::v1::NodeUnstageVolumeRequest request;
  csi::v1::NodeUnstageVolumeResponse response;
  request.set_volume_id(id);
  request.set_staging_target_path(path);
  Check(node_->NodeUnstageVolume(&context, request, &response));
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
  Check(node_->NodePublishVolume(&context, request, &response));
}

void PluginClient::Unpublish(const std::string& id, const std::string& target) {
  grpc::ClientContext context;
  csi::v1::NodeUnpublishVolumeRequest request;
  csi::v1::NodeUnpublishVolumeResponse response;
  request.set_volume_id(id);
  request.set_target_path(target);
  Check(node_->NodeUnpublishVolume(&context, request, &response));
}

void PluginClient::Stats(const std::string& id, const std::string& path) {
  grpc::ClientContext context;
  csi::v1::NodeGetVolumeStatsRequest request;
  csi::v1::NodeGetVolumeStatsResponse response;
  request.set_volume_id(id);
  request.set_volume_path(path);
  Check(node_->NodeGetVolumeStats(&context, request, &response));
}

}  // namespace mooring::bench
