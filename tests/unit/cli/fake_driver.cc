#include "tests/unit/cli/fake_driver.h"

#include <stdexcept>
#include <utility>

namespace mooring::cli {
namespace {

// All calls do the same, so each is one line. The return type and the three parameters are gRPC's.
template <typename Service>
class Scripted : public Service {
 public:
  explicit Scripted(Script& script) : script_(script) {}

 protected:
  using Context = grpc::ServerContext;
  Script& script_;
};

class Identity final : public Scripted<csi::v1::Identity::Service> {
 public:
  using Scripted::Scripted;
  grpc::Status GetPluginInfo(Context*, const csi::v1::GetPluginInfoRequest* request,
                             csi::v1::GetPluginInfoResponse* response) override {
    return script_.Handle(*request, response);
  }
  grpc::Status GetPluginCapabilities(Context*, const csi::v1::GetPluginCapabilitiesRequest* request,
                                     csi::v1::GetPluginCapabilitiesResponse* response) override {
    return script_.Handle(*request, response);
  }
  grpc::Status Probe(Context*, const csi::v1::ProbeRequest* request, csi::v1::ProbeResponse* response) override {
    return script_.Handle(*request, response);
  }
};

class Controller final : public Scripted<csi::v1::Controller::Service> {
 public:
  using Scripted::Scripted;
  grpc::Status CreateVolume(Context*, const csi::v1::CreateVolumeRequest* request,
                            csi::v1::CreateVolumeResponse* response) override {
    return script_.Handle(*request, response);
  }
  grpc::Status DeleteVolume(Context*, const csi::v1::DeleteVolumeRequest* request,
                            csi::v1::DeleteVolumeResponse* response) override {
    return script_.Handle(*request, response);
  }
  grpc::Status ControllerPublishVolume(Context*, const csi::v1::ControllerPublishVolumeRequest* request,
                                       csi::v1::ControllerPublishVolumeResponse* response) override {
    return script_.Handle(*request, response);
  }
  grpc::Status ControllerUnpublishVolume(Context*, const csi::v1::ControllerUnpublishVolumeRequest* request,
                                         csi::v1::ControllerUnpublishVolumeResponse* response) override {
    return script_.Handle(*request, response);
  }
  grpc::Status ValidateVolumeCapabilities(Context*, const csi::v1::ValidateVolumeCapabilitiesRequest* request,
                                          csi::v1::ValidateVolumeCapabilitiesResponse* response) override {
    return script_.Handle(*request, response);
  }
  grpc::Status ListVolumes(Context*, const csi::v1::ListVolumesRequest* request,
                           csi::v1::ListVolumesResponse* response) override {
    return script_.Handle(*request, response);
  }
  grpc::Status GetCapacity(Context*, const csi::v1::GetCapacityRequest* request,
                           csi::v1::GetCapacityResponse* response) override {
    return script_.Handle(*request, response);
  }
  grpc::Status ControllerGetCapabilities(Context*, const csi::v1::ControllerGetCapabilitiesRequest* request,
                                         csi::v1::ControllerGetCapabilitiesResponse* response) override {
    return script_.Handle(*request, response);
  }
  grpc::Status CreateSnapshot(Context*, const csi::v1::CreateSnapshotRequest* request,
                              csi::v1::CreateSnapshotResponse* response) override {
    return script_.Handle(*request, response);
  }
  grpc::Status DeleteSnapshot(Context*, const csi::v1::DeleteSnapshotRequest* request,
                              csi::v1::DeleteSnapshotResponse* response) override {
    return script_.Handle(*request, response);
  }
  grpc::Status ListSnapshots(Context*, const csi::v1::ListSnapshotsRequest* request,
                             csi::v1::ListSnapshotsResponse* response) override {
    return script_.Handle(*request, response);
  }
  grpc::Status GetSnapshot(Context*, const csi::v1::GetSnapshotRequest* request,
                           csi::v1::GetSnapshotResponse* response) override {
    return script_.Handle(*request, response);
  }
  grpc::Status ControllerExpandVolume(Context*, const csi::v1::ControllerExpandVolumeRequest* request,
                                      csi::v1::ControllerExpandVolumeResponse* response) override {
    return script_.Handle(*request, response);
  }
  grpc::Status ControllerGetVolume(Context*, const csi::v1::ControllerGetVolumeRequest* request,
                                   csi::v1::ControllerGetVolumeResponse* response) override {
    return script_.Handle(*request, response);
  }
  grpc::Status ControllerModifyVolume(Context*, const csi::v1::ControllerModifyVolumeRequest* request,
                                      csi::v1::ControllerModifyVolumeResponse* response) override {
    return script_.Handle(*request, response);
  }
};

class GroupController final : public Scripted<csi::v1::GroupController::Service> {
 public:
  using Scripted::Scripted;
  grpc::Status GroupControllerGetCapabilities(Context*, const csi::v1::GroupControllerGetCapabilitiesRequest* request,
                                              csi::v1::GroupControllerGetCapabilitiesResponse* response) override {
    return script_.Handle(*request, response);
  }
  grpc::Status CreateVolumeGroupSnapshot(Context*, const csi::v1::CreateVolumeGroupSnapshotRequest* request,
                                         csi::v1::CreateVolumeGroupSnapshotResponse* response) override {
    return script_.Handle(*request, response);
  }
  grpc::Status DeleteVolumeGroupSnapshot(Context*, const csi::v1::DeleteVolumeGroupSnapshotRequest* request,
                                         csi::v1::DeleteVolumeGroupSnapshotResponse* response) override {
    return script_.Handle(*request, response);
  }
  grpc::Status GetVolumeGroupSnapshot(Context*, const csi::v1::GetVolumeGroupSnapshotRequest* request,
                                      csi::v1::GetVolumeGroupSnapshotResponse* response) override {
    return script_.Handle(*request, response);
  }
};

// A stream of one message.
class SnapshotMetadata final : public Scripted<csi::v1::SnapshotMetadata::Service> {
 public:
  using Scripted::Scripted;
  grpc::Status GetMetadataAllocated(Context*, const csi::v1::GetMetadataAllocatedRequest* request,
                                    grpc::ServerWriter<csi::v1::GetMetadataAllocatedResponse>* writer) override {
    return Send(*request, *writer);
  }
  grpc::Status GetMetadataDelta(Context*, const csi::v1::GetMetadataDeltaRequest* request,
                                grpc::ServerWriter<csi::v1::GetMetadataDeltaResponse>* writer) override {
    return Send(*request, *writer);
  }

 private:
  template <typename Request, typename Response>
  grpc::Status Send(const Request& request, grpc::ServerWriter<Response>& writer) {
    Response response;
    grpc::Status status = script_.Handle(request, &response);
    if (status.ok()) writer.Write(response);
    return status;
  }
};

class Node final : public Scripted<csi::v1::Node::Service> {
 public:
  using Scripted::Scripted;
  grpc::Status NodeStageVolume(Context*, const csi::v1::NodeStageVolumeRequest* request,
                               csi::v1::NodeStageVolumeResponse* response) override {
    return script_.Handle(*request, response);
  }
  grpc::Status NodeUnstageVolume(Context*, const csi::v1::NodeUnstageVolumeRequest* request,
                                 csi::v1::NodeUnstageVolumeResponse* response) override {
    return script_.Handle(*request, response);
  }
  grpc::Status NodePublishVolume(Context*, const csi::v1::NodePublishVolumeRequest* request,
                                 csi::v1::NodePublishVolumeResponse* response) override {
    return script_.Handle(*request, response);
  }
  grpc::Status NodeUnpublishVolume(Context*, const csi::v1::NodeUnpublishVolumeRequest* request,
                                   csi::v1::NodeUnpublishVolumeResponse* response) override {
    return script_.Handle(*request, response);
  }
  grpc::Status NodeGetVolumeStats(Context*, const csi::v1::NodeGetVolumeStatsRequest* request,
                                  csi::v1::NodeGetVolumeStatsResponse* response) override {
    return script_.Handle(*request, response);
  }
  grpc::Status NodeExpandVolume(Context*, const csi::v1::NodeExpandVolumeRequest* request,
                                csi::v1::NodeExpandVolumeResponse* response) override {
    return script_.Handle(*request, response);
  }
  grpc::Status NodeGetCapabilities(Context*, const csi::v1::NodeGetCapabilitiesRequest* request,
                                   csi::v1::NodeGetCapabilitiesResponse* response) override {
    return script_.Handle(*request, response);
  }
  grpc::Status NodeGetInfo(Context*, const csi::v1::NodeGetInfoRequest* request,
                           csi::v1::NodeGetInfoResponse* response) override {
    return script_.Handle(*request, response);
  }
};

}  // namespace

FakeDriver::FakeDriver(Start start) {
  services_.push_back(std::make_unique<Identity>(script_));
  services_.push_back(std::make_unique<Controller>(script_));
  services_.push_back(std::make_unique<GroupController>(script_));
  services_.push_back(std::make_unique<SnapshotMetadata>(script_));
  services_.push_back(std::make_unique<Node>(script_));
  if (start == Start::kNow) Serve();
}

FakeDriver::~FakeDriver() { Stop(); }

void FakeDriver::Serve() {
  grpc::ServerBuilder builder;
  builder.AddListeningPort("unix:" + socket(), grpc::InsecureServerCredentials());
  for (const auto& service : services_) builder.RegisterService(service.get());
  server_ = builder.BuildAndStart();
  if (server_ == nullptr) throw std::runtime_error("serve " + socket());
}

void FakeDriver::Stop() {
  if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now());
  server_.reset();
}

}  // namespace mooring::cli
