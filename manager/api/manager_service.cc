#include "manager/api/manager_service.h"

#include <utility>

#include "manager/api/calls.h"

namespace mooring::manager {
namespace {

using grpc::ServerContext;

class ServiceTable final : public ManagerService {
 public:
  ServiceTable(ApiHandlers handlers, CallRecorder* recorder) : handlers_(std::move(handlers)), calls_(recorder) {}

  std::vector<std::string> Drain(Clock::time_point until) override { return calls_.Drain(until); }

  grpc::Status RegisterPlugin(ServerContext* context, const v1::RegisterPluginRequest* request,
                              v1::RegisterPluginResponse* response) override {
    return calls_.Serve(context, *request, response, Length::kShort,
                        [&](const ApiCall& call) { return handlers_.plugins.RegisterPlugin(*request, call); });
  }
  grpc::Status StopPlugin(ServerContext* context, const v1::StopPluginRequest* request,
                          v1::StopPluginResponse* response) override {
    return calls_.Serve(context, *request, response, Length::kShort,
                        [&](const ApiCall& call) { return handlers_.plugins.StopPlugin(*request, call); });
  }
  grpc::Status ListPlugins(ServerContext* context, const v1::ListPluginsRequest* request,
                           v1::ListPluginsResponse* response) override {
    return calls_.Serve(context, *request, response, Length::kShort,
                        [&](const ApiCall&) { return handlers_.plugins.ListPlugins(*request); });
  }
  grpc::Status CreateVolume(ServerContext* context, const v1::CreateVolumeRequest* request,
                            v1::CreateVolumeResponse* response) override {
    return calls_.Serve(context, *request, response, Length::kLong,
                        [&](const ApiCall& call) { return handlers_.volumes.CreateVolume(*request, call); });
  }
  grpc::Status RegisterVolume(ServerContext* context, const v1::RegisterVolumeRequest* request,
                              v1::RegisterVolumeResponse* response) override {
    return calls_.Serve(context, *request, response, Length::kShort,
                        [&](const ApiCall& call) { return handlers_.volumes.RegisterVolume(*request, call); });
  }
  grpc::Status UpdateVolume(ServerContext* context, const v1::UpdateVolumeRequest* request,
                            v1::UpdateVolumeResponse* response) override {
    return calls_.Serve(context, *request, response, Length::kShort,
                        [&](const ApiCall&) { return handlers_.volumes.UpdateVolume(*request); });
  }
  grpc::Status DeleteVolume(ServerContext* context, const v1::DeleteVolumeRequest* request,
                            v1::DeleteVolumeResponse* response) override {
    return calls_.Serve(context, *request, response, Length::kLong,
                        [&](const ApiCall& call) { return handlers_.volumes.DeleteVolume(*request, call); });
  }
  grpc::Status ExpandVolume(ServerContext* context, const v1::ExpandVolumeRequest* request,
                            v1::ExpandVolumeResponse* response) override {
    return calls_.Serve(context, *request, response, Length::kLong,
                        [&](const ApiCall& call) { return handlers_.volumes.ExpandVolume(*request, call); });
  }
  grpc::Status GetVolume(ServerContext* context, const v1::GetVolumeRequest* request,
                         v1::GetVolumeResponse* response) override {
    return calls_.Serve(context, *request, response, Length::kShort,
                        [&](const ApiCall&) { return handlers_.volumes.GetVolume(*request); });
  }
  grpc::Status ListVolumes(ServerContext* context, const v1::ListVolumesRequest* request,
                           v1::ListVolumesResponse* response) override {
    return calls_.Serve(context, *request, response, Length::kShort,
                        [&](const ApiCall&) { return handlers_.volumes.ListVolumes(*request); });
  }
  grpc::Status CreateSnapshot(ServerContext* context, const v1::CreateSnapshotRequest* request,
                              v1::CreateSnapshotResponse* response) override {
    return calls_.Serve(context, *request, response, Length::kLong,
                        [&](const ApiCall& call) { return handlers_.snapshots.CreateSnapshot(*request, call); });
  }
  grpc::Status DeleteSnapshot(ServerContext* context, const v1::DeleteSnapshotRequest* request,
                              v1::DeleteSnapshotResponse* response) override {
    return calls_.Serve(context, *request, response, Length::kLong,
                        [&](const ApiCall& call) { return handlers_.snapshots.DeleteSnapshot(*request, call); });
  }
  grpc::Status ListSnapshots(ServerContext* context, const v1::ListSnapshotsRequest* request,
                             v1::ListSnapshotsResponse* response) override {
    return calls_.Serve(context, *request, response, Length::kShort,
                        [&](const ApiCall& call) { return handlers_.snapshots.ListSnapshots(*request, call); });
  }
  grpc::Status ClaimVolume(ServerContext* context, const v1::ClaimVolumeRequest* request,
                           v1::ClaimVolumeResponse* response) override {
    return calls_.Serve(context, *request, response, Length::kShort,
                        [&](const ApiCall& call) { return handlers_.claims.ClaimVolume(*request, call); });
  }
  grpc::Status ReleaseVolume(ServerContext* context, const v1::ReleaseVolumeRequest* request,
                             v1::ReleaseVolumeResponse* response) override {
    return calls_.Serve(context, *request, response, Length::kShort,
                        [&](const ApiCall& call) { return handlers_.claims.ReleaseVolume(*request, call); });
  }
  grpc::Status ListClaims(ServerContext* context, const v1::ListClaimsRequest* request,
                          v1::ListClaimsResponse* response) override {
    return calls_.Serve(context, *request, response, Length::kShort,
                        [&](const ApiCall&) { return handlers_.claims.ListClaims(*request); });
  }
  grpc::Status AllocationGone(ServerContext* context, const v1::AllocationGoneRequest* request,
                              v1::AllocationGoneResponse* response) override {
    return calls_.Serve(context, *request, response, Length::kShort,
                        [&](const ApiCall&) { return handlers_.claims.AllocationGone(*request); });
  }
  grpc::Status ListAttachments(ServerContext* context, const v1::ListAttachmentsRequest* request,
                               v1::ListAttachmentsResponse* response) override {
    return calls_.Serve(context, *request, response, Length::kShort,
                        [&](const ApiCall&) { return handlers_.attachments.ListAttachments(*request); });
  }
  grpc::Status GetManagerInfo(ServerContext* context, const v1::GetManagerInfoRequest* request,
                              v1::GetManagerInfoResponse* response) override {
    return calls_.Serve(context, *request, response, Length::kShort,
                        [&](const ApiCall&) { return handlers_.info.GetManagerInfo(); });
  }

  grpc::Status RunPlugin(ServerContext* context, const v1::RunPluginRequest* request,
                         grpc::ServerWriter<v1::RunPluginReply>* writer) override {
    return calls_.ServeStream(context, *request, Length::kLong, [&](const ApiCall& call) {
      return handlers_.plugins.RunPlugin(*request, call, Sender(writer));
    });
  }
  grpc::Status Attach(ServerContext* context, const v1::AttachRequest* request,
                      grpc::ServerWriter<v1::AttachReply>* writer) override {
    return calls_.ServeStream(context, *request, Length::kShort, [&](const ApiCall& call) {
      return handlers_.attachments.Attach(*request, call, Sender(writer));
    });
  }
  grpc::Status Detach(ServerContext* context, const v1::DetachRequest* request,
                      grpc::ServerWriter<v1::DetachReply>* writer) override {
    return calls_.ServeStream(context, *request, Length::kShort, [&](const ApiCall& call) {
      return handlers_.attachments.Detach(*request, call, Sender(writer));
    });
  }
  grpc::Status StreamEvents(ServerContext* context, const v1::StreamEventsRequest* request,
                            grpc::ServerWriter<v1::Event>* writer) override {
    return calls_.ServeStream(context, *request, Length::kEndless, [&](const ApiCall& call) {
      return handlers_.streams.StreamEvents(*request, call, Sender(writer));
    });
  }
  grpc::Status Watch(ServerContext* context, const v1::WatchRequest* request,
                     grpc::ServerWriter<v1::WatchReply>* writer) override {
    return calls_.ServeStream(context, *request, Length::kEndless, [&](const ApiCall& call) {
      return handlers_.streams.WatchRecords(*request, call, Sender(writer));
    });
  }

 private:
  template <typename Reply>
  static Send<Reply> Sender(grpc::ServerWriter<Reply>* writer) {
    return [writer](const Reply& reply) { return writer->Write(reply); };
  }

  ApiHandlers handlers_;
  Calls calls_;
};

}  // namespace

std::unique_ptr<ManagerService> MakeManagerService(ApiHandlers handlers, CallRecorder* recorder) {
  return std::make_unique<ServiceTable>(std::move(handlers), recorder);
}

}  // namespace mooring::manager
