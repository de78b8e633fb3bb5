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

// Each row defines a method of the service: its name, which is also that of its handler, its Length and its handlers.
#define MOORING_CALL(name, length, group)                                                                              \
  grpc::Status name(ServerContext* context, const v1::name##Request* request, v1::name##Response* response) override { \
    return Serve(context, *request, response, Length::length, handlers_.group, &decltype(handlers_.group)::name);      \
  }
  MOORING_CALL(RegisterPlugin, kShort, plugins)
  MOORING_CALL(StopPlugin, kShort, plugins)
  MOORING_CALL(ListPlugins, kShort, plugins)
  MOORING_CALL(CreateVolume, kLong, volumes)
  MOORING_CALL(RegisterVolume, kShort, volumes)
  MOORING_CALL(UpdateVolume, kShort, volumes)
  MOORING_CALL(DeleteVolume, kLong, volumes)
  MOORING_CALL(ExpandVolume, kLong, volumes)
  MOORING_CALL(GetVolume, kShort, volumes)
  MOORING_CALL(ListVolumes, kShort, volumes)
  MOORING_CALL(CreateSnapshot, kLong, snapshots)
  MOORING_CALL(DeleteSnapshot, kLong, snapshots)
  MOORING_CALL(ListSnapshots, kShort, snapshots)
  MOORING_CALL(ClaimVolume, kShort, claims)
  MOORING_CALL(ReleaseVolume, kShort, claims)
  MOORING_CALL(ListClaims, kShort, claims)
  MOORING_CALL(AllocationGone, kShort, claims)
  MOORING_CALL(ListAttachments, kShort, attachments)
  MOORING_CALL(ListHosts, kShort, hosts)
  MOORING_CALL(DrainHost, kShort, hosts)
  MOORING_CALL(DeclareHostLost, kShort, hosts)
  MOORING_CALL(GetManagerInfo, kShort, info)
#undef MOORING_CALL

// The same for a method that streams messages of the type `reply`.
#define MOORING_STREAM(name, length, group, reply)                                                                   \
  grpc::Status name(ServerContext* context, const v1::name##Request* request, grpc::ServerWriter<v1::reply>* writer) \
      override {                                                                                                     \
    const auto send = [writer](const v1::reply& message) { return writer->Write(message); };                         \
    const auto handle = [&](const ApiCall& call) { return handlers_.group.name(*request, call, send); };             \
    return calls_.ServeStream(context, *request, Length::length, handle);                                            \
  }
  MOORING_STREAM(RunPlugin, kLong, plugins, RunPluginReply)
  MOORING_STREAM(Attach, kShort, attachments, AttachReply)
  MOORING_STREAM(Detach, kShort, attachments, DetachReply)
  MOORING_STREAM(StreamEvents, kEndless, streams, Event)
  MOORING_STREAM(Watch, kEndless, streams, WatchReply)
#undef MOORING_STREAM

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

  ApiHandlers handlers_;
  Calls calls_;
};

}  // namespace

std::unique_ptr<ManagerService> MakeManagerService(ApiHandlers handlers, CallRecorder* recorder) {
  return std::make_unique<ServiceTable>(std::move(handlers), recorder);
}

}  // namespace mooring::manager
