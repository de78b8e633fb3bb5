#include "manager/api/manager_service.h"

#include <chrono>

#include "base/version.h"
#include "manager/api/calls.h"
#include "manager/api/handlers.h"
#include "manager/attach/attachments.h"

namespace mooring::manager {
namespace {

using grpc::ServerContext;

class Table final : public ManagerService {
 public:
  explicit Table(Parts& parts) : parts_(parts), calls_(parts.metrics == nullptr ? nullptr : &parts.metrics->api()) {}

  std::vector<std::string> Drain(Clock::time_point until) override { return calls_.Drain(until); }

  grpc::Status RegisterPlugin(ServerContext* context, const v1::RegisterPluginRequest* request,
                              v1::RegisterPluginResponse* response) override {
    return calls_.Serve(context, *request, response, Length::kShort,
                        [&](const ApiCall& call) { return manager::RegisterPlugin(parts_, *request, call); });
  }
  grpc::Status StopPlugin(ServerContext* context, const v1::StopPluginRequest* request,
                          v1::StopPluginResponse* response) override {
    return calls_.Serve(context, *request, response, Length::kShort,
                        [&](const ApiCall& call) { return manager::StopPlugin(parts_, *request, call); });
  }
  grpc::Status ListPlugins(ServerContext* context, const v1::ListPluginsRequest* request,
                           v1::ListPluginsResponse* response) override {
    return calls_.Serve(context, *request, response, Length::kShort,
                        [&](const ApiCall&) { return manager::ListPlugins(parts_, *request); });
  }
  grpc::Status CreateVolume(ServerContext* context, const v1::CreateVolumeRequest* request,
                            v1::CreateVolumeResponse* response) override {
    return calls_.Serve(context, *request, response, Length::kLong,
                        [&](const ApiCall& call) { return manager::CreateVolume(parts_, *request, call); });
  }
  grpc::Status RegisterVolume(ServerContext* context, const v1::RegisterVolumeRequest* request,
                              v1::RegisterVolumeResponse* response) override {
    return calls_.Serve(context, *request, response, Length::kShort,
                        [&](const ApiCall& call) { return manager::RegisterVolume(parts_, *request, call); });
  }
  grpc::Status UpdateVolume(ServerContext* context, const v1::UpdateVolumeRequest* request,
                            v1::UpdateVolumeResponse* response) override {
    return calls_.Serve(context, *request, response, Length::kShort,
                        [&](const ApiCall&) { return manager::UpdateVolume(parts_, *request); });
  }
  grpc::Status DeleteVolume(ServerContext* context, const v1::DeleteVolumeRequest* request,
                            v1::DeleteVolumeResponse* response) override {
    return calls_.Serve(context, *request, response, Length::kLong,
                        [&](const ApiCall& call) { return manager::DeleteVolume(parts_, *request, call); });
  }
  grpc::Status ExpandVolume(ServerContext* context, const v1::ExpandVolumeRequest* request,
                            v1::ExpandVolumeResponse* response) override {
    return calls_.Serve(context, *request, response, Length::kLong,
                        [&](const ApiCall& call) { return manager::ExpandVolume(parts_, *request, call); });
  }
  grpc::Status GetVolume(ServerContext* context, const v1::GetVolumeRequest* request,
                         v1::GetVolumeResponse* response) override {
    return calls_.Serve(context, *request, response, Length::kShort,
                        [&](const ApiCall&) { return manager::GetVolume(parts_, *request); });
  }
  grpc::Status ListVolumes(ServerContext* context, const v1::ListVolumesRequest* request,
                           v1::ListVolumesResponse* response) override {
    return calls_.Serve(context, *request, response, Length::kShort,
                        [&](const ApiCall&) { return manager::ListVolumes(parts_, *request); });
  }
  grpc::Status CreateSnapshot(ServerContext* context, const v1::CreateSnapshotRequest* request,
                              v1::CreateSnapshotResponse* response) override {
    return calls_.Serve(context, *request, response, Length::kLong,
                        [&](const ApiCall& call) { return manager::CreateSnapshot(parts_, *request, call); });
  }
  grpc::Status DeleteSnapshot(ServerContext* context, const v1::DeleteSnapshotRequest* request,
                              v1::DeleteSnapshotResponse* response) override {
    return calls_.Serve(context, *request, response, Length::kLong,
                        [&](const ApiCall& call) { return manager::DeleteSnapshot(parts_, *request, call); });
  }
  grpc::Status ListSnapshots(ServerContext* context, const v1::ListSnapshotsRequest* request,
                             v1::ListSnapshotsResponse* response) override {
    return calls_.Serve(context, *request, response, Length::kShort,
                        [&](const ApiCall& call) { return manager::ListSnapshots(parts_, *request, call); });
  }
  grpc::Status ClaimVolume(ServerContext* context, const v1::ClaimVolumeRequest* request,
                           v1::ClaimVolumeResponse* response) override {
    return calls_.Serve(context, *request, response, Length::kShort,
                        [&](const ApiCall& call) { return manager::ClaimVolume(parts_, *request, call); });
  }
  grpc::Status ReleaseVolume(ServerContext* context, const v1::ReleaseVolumeRequest* request,
                             v1::ReleaseVolumeResponse* response) override {
    return calls_.Serve(context, *request, response, Length::kShort,
                        [&](const ApiCall& call) { return manager::ReleaseVolume(parts_, *request, call); });
  }
  grpc::Status ListClaims(ServerContext* context, const v1::ListClaimsRequest* request,
                          v1::ListClaimsResponse* response) override {
    return calls_.Serve(context, *request, response, Length::kShort,
                        [&](const ApiCall&) { return manager::ListClaims(parts_, *request); });
  }
  grpc::Status AllocationGone(ServerContext* context, const v1::AllocationGoneRequest* request,
                              v1::AllocationGoneResponse* response) override {
    return calls_.Serve(context, *request, response, Length::kShort,
                        [&](const ApiCall&) { return manager::AllocationGone(parts_, *request); });
  }
  grpc::Status ListAttachments(ServerContext* context, const v1::ListAttachmentsRequest* request,
                               v1::ListAttachmentsResponse* response) override {
    return calls_.Serve(context, *request, response, Length::kShort,
                        [&](const ApiCall&) { return manager::ListAttachments(parts_, *request); });
  }
  grpc::Status GetManagerInfo(ServerContext* context, const v1::GetManagerInfoRequest* request,
                              v1::GetManagerInfoResponse* response) override {
    return calls_.Serve(context, *request, response, Length::kShort, [&](const ApiCall&) { return Info(); });
  }

  grpc::Status RunPlugin(ServerContext* context, const v1::RunPluginRequest* request,
                         grpc::ServerWriter<v1::RunPluginReply>* writer) override {
    return calls_.ServeStream(context, *request, Length::kLong, [&](const ApiCall& call) {
      return manager::RunPlugin(parts_, *request, call, Sender(writer));
    });
  }
  grpc::Status Attach(ServerContext* context, const v1::AttachRequest* request,
                      grpc::ServerWriter<v1::AttachReply>* writer) override {
    return calls_.ServeStream(context, *request, Length::kShort, [&](const ApiCall& call) {
      return manager::Attach(parts_, *request, call, Sender(writer));
    });
  }
  grpc::Status Detach(ServerContext* context, const v1::DetachRequest* request,
                      grpc::ServerWriter<v1::DetachReply>* writer) override {
    return calls_.ServeStream(context, *request, Length::kShort, [&](const ApiCall& call) {
      return manager::Detach(parts_, *request, call, Sender(writer));
    });
  }
  grpc::Status StreamEvents(ServerContext* context, const v1::StreamEventsRequest* request,
                            grpc::ServerWriter<v1::Event>* writer) override {
    return calls_.ServeStream(context, *request, Length::kEndless, [&](const ApiCall& call) {
      return manager::StreamEvents(parts_, *request, call, Sender(writer));
    });
  }
  grpc::Status Watch(ServerContext* context, const v1::WatchRequest* request,
                     grpc::ServerWriter<v1::WatchReply>* writer) override {
    return calls_.ServeStream(context, *request, Length::kEndless, [&](const ApiCall& call) {
      return manager::WatchRecords(parts_, *request, call, Sender(writer));
    });
  }

 private:
  template <typename Reply>
  static Send<Reply> Sender(grpc::ServerWriter<Reply>* writer) {
    return [writer](const Reply& reply) { return writer->Write(reply); };
  }

  absl::StatusOr<v1::GetManagerInfoResponse> Info() const {
    v1::GetManagerInfoResponse info;
    info.set_version(Version());
    info.set_host(parts_.config.host);
    info.set_root(parts_.config.root);
    info.set_started_at_ms(started_at_ms_);
    info.set_restoring(parts_.attachments->restoring());
    return info;
  }

  Parts& parts_;
  Calls calls_;
  const std::int64_t started_at_ms_ =
      std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch())
          .count();
};

}  // namespace

std::unique_ptr<ManagerService> MakeManagerService(Parts& parts) { return std::make_unique<Table>(parts); }

}  // namespace mooring::manager
