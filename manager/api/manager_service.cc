#include "manager/api/manager_service.h"

#include <type_traits>
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
    return Serve(context, *request, response, Length::kShort, handlers_.plugins, &PluginHandlers::RegisterPlugin);
  }
  grpc::Status StopPlugin(ServerContext* context, const v1::StopPluginRequest* request,
                          v1::StopPluginResponse* response) override {
    return Serve(context, *request, response, Length::kShort, handlers_.plugins, &PluginHandlers::StopPlugin);
  }
  grpc::Status ListPlugins(ServerContext* context, const v1::ListPluginsRequest* request,
                           v1::ListPluginsResponse* response) override {
    return Serve(context, *request, response, Length::kShort, handlers_.plugins, &PluginHandlers::ListPlugins);
  }
  grpc::Status CreateVolume(ServerContext* context, const v1::CreateVolumeRequest* request,
                            v1::CreateVolumeResponse* response) override {
    return Serve(context, *request, response, Length::kLong, handlers_.volumes, &VolumeHandlers::CreateVolume);
  }
  grpc::Status RegisterVolume(ServerContext* context, const v1::RegisterVolumeRequest* request,
                              v1::RegisterVolumeResponse* response) override {
    return Serve(context, *request, response, Length::kShort, handlers_.volumes, &VolumeHandlers::RegisterVolume);
  }
  grpc::Status UpdateVolume(ServerContext* context, const v1::UpdateVolumeRequest* request,
                            v1::UpdateVolumeResponse* response) override {
    return Serve(context, *request, response, Length::kShort, handlers_.volumes, &VolumeHandlers::UpdateVolume);
  }
  grpc::Status DeleteVolume(ServerContext* context, const v1::DeleteVolumeRequest* request,
                            v1::DeleteVolumeResponse* response) override {
    return Serve(context, *request, response, Length::kLong, handlers_.volumes, &VolumeHandlers::DeleteVolume);
  }
  grpc::Status ExpandVolume(ServerContext* context, const v1::ExpandVolumeRequest* request,
                            v1::ExpandVolumeResponse* response) override {
    return Serve(context, *request, response, Length::kLong, handlers_.volumes, &VolumeHandlers::ExpandVolume);
  }
  grpc::Status GetVolume(ServerContext* context, const v1::GetVolumeRequest* request,
                         v1::GetVolumeResponse* response) override {
    return Serve(context, *request, response, Length::kShort, handlers_.volumes, &VolumeHandlers::GetVolume);
  }
  grpc::Status ListVolumes(ServerContext* context, const v1::ListVolumesRequest* request,
                           v1::ListVolumesResponse* response) override {
    return Serve(context, *request, response, Length::kShort, handlers_.volumes, &VolumeHandlers::ListVolumes);
  }
  grpc::Status CreateSnapshot(ServerContext* context, const v1::CreateSnapshotRequest* request,
                              v1::CreateSnapshotResponse* response) override {
    return Serve(context, *request, response, Length::kLong, handlers_.snapshots, &SnapshotHandlers::CreateSnapshot);
  }
  grpc::Status DeleteSnapshot(ServerContext* context, const v1::DeleteSnapshotRequest* request,
                              v1::DeleteSnapshotResponse* response) override {
    return Serve(context, *request, response, Length::kLong, handlers_.snapshots, &SnapshotHandlers::DeleteSnapshot);
  }
  grpc::Status ListSnapshots(ServerContext* context, const v1::ListSnapshotsRequest* request,
                             v1::ListSnapshotsResponse* response) override {
    return Serve(context, *request, response, Length::kShort, handlers_.snapshots, &SnapshotHandlers::ListSnapshots);
  }
  grpc::Status ClaimVolume(ServerContext* context, const v1::ClaimVolumeRequest* request,
                           v1::ClaimVolumeResponse* response) override {
    return Serve(context, *request, response, Length::kShort, handlers_.claims, &ClaimHandlers::ClaimVolume);
  }
  grpc::Status ReleaseVolume(ServerContext* context, const v1::ReleaseVolumeRequest* request,
                             v1::ReleaseVolumeResponse* response) override {
    return Serve(context, *request, response, Length::kShort, handlers_.claims, &ClaimHandlers::ReleaseVolume);
  }
  grpc::Status ListClaims(ServerContext* context, const v1::ListClaimsRequest* request,
                          v1::ListClaimsResponse* response) override {
    return Serve(context, *request, response, Length::kShort, handlers_.claims, &ClaimHandlers::ListClaims);
  }
  grpc::Status AllocationGone(ServerContext* context, const v1::AllocationGoneRequest* request,
                              v1::AllocationGoneResponse* response) override {
    return Serve(context, *request, response, Length::kShort, handlers_.claims, &ClaimHandlers::AllocationGone);
  }
  grpc::Status ListAttachments(ServerContext* context, const v1::ListAttachmentsRequest* request,
                               v1::ListAttachmentsResponse* response) override {
    return Serve(context, *request, response, Length::kShort, handlers_.attachments, &AttachHandlers::ListAttachments);
  }
  grpc::Status GetManagerInfo(ServerContext* context, const v1::GetManagerInfoRequest* request,
                              v1::GetManagerInfoResponse* response) override {
    return calls_.Serve(context, *request, response, Length::kShort,
                        [&](const ApiCall&) { return handlers_.info.GetManagerInfo(); });
  }

  grpc::Status RunPlugin(ServerContext* context, const v1::RunPluginRequest* request,
                         grpc::ServerWriter<v1::RunPluginReply>* writer) override {
    return Stream(context, *request, writer, Length::kLong, handlers_.plugins, &PluginHandlers::RunPlugin);
  }
  grpc::Status Attach(ServerContext* context, const v1::AttachRequest* request,
                      grpc::ServerWriter<v1::AttachReply>* writer) override {
    return Stream(context, *request, writer, Length::kShort, handlers_.attachments, &AttachHandlers::Attach);
  }
  grpc::Status Detach(ServerContext* context, const v1::DetachRequest* request,
                      grpc::ServerWriter<v1::DetachReply>* writer) override {
    return Stream(context, *request, writer, Length::kShort, handlers_.attachments, &AttachHandlers::Detach);
  }
  grpc::Status StreamEvents(ServerContext* context, const v1::StreamEventsRequest* request,
                            grpc::ServerWriter<v1::Event>* writer) override {
    return Stream(context, *request, writer, Length::kEndless, handlers_.streams, &StreamHandlers::StreamEvents);
  }
  grpc::Status Watch(ServerContext* context, const v1::WatchRequest* request,
                     grpc::ServerWriter<v1::WatchReply>* writer) override {
    return Stream(context, *request, writer, Length::kEndless, handlers_.streams, &StreamHandlers::WatchRecords);
  }

 private:
  // `method` is a member of `group` with the parameters (request) or (request, call).
  template <typename Request, typename Response, typename Group, typename Method>
  grpc::Status Serve(ServerContext* context, const Request& request, Response* response, Length length, Group& group,
                     Method method) {
    return calls_.Serve(context, request, response, length, [&](const ApiCall& call) {
      if constexpr (std::is_invocable_v<Method, Group&, const Request&, const ApiCall&>) {
        return (group.*method)(request, call);
      } else {
        return (group.*method)(request);
      }
    });
  }

  template <typename Request, typename Reply, typename Group, typename Method>
  grpc::Status Stream(ServerContext* context, const Request& request, grpc::ServerWriter<Reply>* writer, Length length,
                      Group& group, Method method) {
    return calls_.ServeStream(context, request, length, [&](const ApiCall& call) {
      return (group.*method)(request, call, [writer](const Reply& reply) { return writer->Write(reply); });
    });
  }

  ApiHandlers handlers_;
  Calls calls_;
};

}  // namespace

std::unique_ptr<ManagerService> MakeManagerService(ApiHandlers handlers, CallRecorder* recorder) {
  return std::make_unique<ServiceTable>(std::move(handlers), recorder);
}

}  // namespace mooring::manager
