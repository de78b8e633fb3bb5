#include "tests/unit/cli/fake_manager.h"

#include <stdexcept>

#include "manager.grpc.pb.h"

namespace mooring::cli {
namespace {

namespace v1 = manager::v1;

// All calls do the same, so each is one line. The return type and the three parameters are gRPC's.
class Service final : public v1::Manager::Service {
 public:
  using Context = grpc::ServerContext;
  explicit Service(Script& script) : script_(script) {}

  grpc::Status StopPlugin(Context*, const v1::StopPluginRequest* request, v1::StopPluginResponse* response) override {
    return script_.Handle(*request, response);
  }
  grpc::Status ListPlugins(Context*, const v1::ListPluginsRequest* request,
                           v1::ListPluginsResponse* response) override {
    return script_.Handle(*request, response);
  }
  grpc::Status RegisterPlugin(Context*, const v1::RegisterPluginRequest* request,
                              v1::RegisterPluginResponse* response) override {
    return script_.Handle(*request, response);
  }
  grpc::Status CreateVolume(Context*, const v1::CreateVolumeRequest* request,
                            v1::CreateVolumeResponse* response) override {
    return script_.Handle(*request, response);
  }
  grpc::Status RegisterVolume(Context*, const v1::RegisterVolumeRequest* request,
                              v1::RegisterVolumeResponse* response) override {
    return script_.Handle(*request, response);
  }
  grpc::Status UpdateVolume(Context*, const v1::UpdateVolumeRequest* request,
                            v1::UpdateVolumeResponse* response) override {
    return script_.Handle(*request, response);
  }
  grpc::Status DeleteVolume(Context*, const v1::DeleteVolumeRequest* request,
                            v1::DeleteVolumeResponse* response) override {
    return script_.Handle(*request, response);
  }
  grpc::Status ExpandVolume(Context*, const v1::ExpandVolumeRequest* request,
                            v1::ExpandVolumeResponse* response) override {
    return script_.Handle(*request, response);
  }
  grpc::Status GetVolume(Context*, const v1::GetVolumeRequest* request, v1::GetVolumeResponse* response) override {
    return script_.Handle(*request, response);
  }
  grpc::Status ListVolumes(Context*, const v1::ListVolumesRequest* request,
                           v1::ListVolumesResponse* response) override {
    return script_.Handle(*request, response);
  }
  grpc::Status CreateSnapshot(Context*, const v1::CreateSnapshotRequest* request,
                              v1::CreateSnapshotResponse* response) override {
    return script_.Handle(*request, response);
  }
  grpc::Status DeleteSnapshot(Context*, const v1::DeleteSnapshotRequest* request,
                              v1::DeleteSnapshotResponse* response) override {
    return script_.Handle(*request, response);
  }
  grpc::Status ListSnapshots(Context*, const v1::ListSnapshotsRequest* request,
                             v1::ListSnapshotsResponse* response) override {
    return script_.Handle(*request, response);
  }
  grpc::Status ClaimVolume(Context*, const v1::ClaimVolumeRequest* request,
                           v1::ClaimVolumeResponse* response) override {
    return script_.Handle(*request, response);
  }
  grpc::Status ReleaseVolume(Context*, const v1::ReleaseVolumeRequest* request,
                             v1::ReleaseVolumeResponse* response) override {
    return script_.Handle(*request, response);
  }
  grpc::Status ListClaims(Context*, const v1::ListClaimsRequest* request, v1::ListClaimsResponse* response) override {
    return script_.Handle(*request, response);
  }
  grpc::Status AllocationGone(Context*, const v1::AllocationGoneRequest* request,
                              v1::AllocationGoneResponse* response) override {
    return script_.Handle(*request, response);
  }
  grpc::Status ListAttachments(Context*, const v1::ListAttachmentsRequest* request,
                               v1::ListAttachmentsResponse* response) override {
    return script_.Handle(*request, response);
  }
  grpc::Status GetManagerInfo(Context*, const v1::GetManagerInfoRequest* request,
                              v1::GetManagerInfoResponse* response) override {
    return script_.Handle(*request, response);
  }
  grpc::Status RunPlugin(Context*, const v1::RunPluginRequest* request,
                         grpc::ServerWriter<v1::RunPluginReply>* writer) override {
    return script_.HandleStream(*request, *writer);
  }
  grpc::Status Attach(Context*, const v1::AttachRequest* request,
                      grpc::ServerWriter<v1::AttachReply>* writer) override {
    return script_.HandleStream(*request, *writer);
  }
  grpc::Status Detach(Context*, const v1::DetachRequest* request,
                      grpc::ServerWriter<v1::DetachReply>* writer) override {
    return script_.HandleStream(*request, *writer);
  }
  grpc::Status StreamEvents(Context*, const v1::StreamEventsRequest* request,
                            grpc::ServerWriter<v1::Event>* writer) override {
    return script_.HandleStream(*request, *writer);
  }
  grpc::Status Watch(Context*, const v1::WatchRequest* request, grpc::ServerWriter<v1::WatchReply>* writer) override {
    return script_.HandleStream(*request, *writer);
  }

 private:
  Script& script_;
};

}  // namespace

FakeManager::FakeManager(Start start) : service_(std::make_unique<Service>(script_)) {
  if (start == Start::kNow) Serve();
}

FakeManager::~FakeManager() {
  if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now());
}

void FakeManager::Serve() {
  grpc::ServerBuilder builder;
  builder.AddListeningPort("unix:" + socket(), grpc::InsecureServerCredentials());
  builder.RegisterService(service_.get());
  server_ = builder.BuildAndStart();
  if (server_ == nullptr) throw std::runtime_error("serve " + socket());
}

}  // namespace mooring::cli
