// The way to one CSI plugin: calls with deadlines, nothing else. One implementation speaks gRPC (grpc_channel.h); the
// tests' plugin (tests/fakes/fake_csi_plugin.h) is another.
//
//   MOORING_ASSIGN_OR_RETURN(const auto info, Call(channel, csi::v1::NodeGetInfoRequest(), until));
#ifndef MOORING_MANAGER_CSI_CSI_CHANNEL_H_
#define MOORING_MANAGER_CSI_CSI_CHANNEL_H_

#include <google/protobuf/message.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/status.h"
#include "csi.pb.h"
#include "manager/csi/stop_token.h"

namespace mooring::manager {

using Clock = std::chrono::steady_clock;

class CsiChannel {
 public:
  virtual ~CsiChannel() = default;

  // `method` as gRPC names it: "/csi.v1.Node/NodeStageVolume". The plugin's own code and words come back; UNAVAILABLE:
  // nobody serves the socket; DEADLINE_EXCEEDED: no answer in time; CANCELLED after Close. Safe from several threads.
  virtual absl::Status Call(const std::string& method, const google::protobuf::Message& request,
                            google::protobuf::Message& response, Clock::time_point until) = 0;

  // Ends the calls under way and those to come.
  virtual void Close() = 0;
};

// Connects to a socket; nothing needs to be there yet. `plugin`: whose it is, empty where that is to be asked.
using CsiConnector =
    std::function<std::shared_ptr<CsiChannel>(const std::string& socket_path, const std::string& plugin)>;

// Which service and response a request belongs to. One line a call that the manager makes.
template <typename Request>
struct CsiCall;
#define MOORING_CSI_CALL(service, call)                              \
  template <>                                                        \
  struct CsiCall<csi::v1::call##Request> {                           \
    using Response = csi::v1::call##Response;                        \
    static constexpr char kMethod[] = "/csi.v1." #service "/" #call; \
  }
MOORING_CSI_CALL(Identity, GetPluginInfo);
MOORING_CSI_CALL(Identity, GetPluginCapabilities);
MOORING_CSI_CALL(Identity, Probe);
MOORING_CSI_CALL(Node, NodeGetInfo);
MOORING_CSI_CALL(Node, NodeGetCapabilities);
MOORING_CSI_CALL(Node, NodeStageVolume);
MOORING_CSI_CALL(Node, NodeUnstageVolume);
MOORING_CSI_CALL(Node, NodePublishVolume);
MOORING_CSI_CALL(Node, NodeUnpublishVolume);
MOORING_CSI_CALL(Node, NodeExpandVolume);
MOORING_CSI_CALL(Node, NodeGetVolumeStats);
MOORING_CSI_CALL(Controller, ControllerGetCapabilities);
MOORING_CSI_CALL(Controller, CreateVolume);
MOORING_CSI_CALL(Controller, DeleteVolume);
MOORING_CSI_CALL(Controller, ControllerPublishVolume);
MOORING_CSI_CALL(Controller, ControllerUnpublishVolume);
MOORING_CSI_CALL(Controller, ValidateVolumeCapabilities);
MOORING_CSI_CALL(Controller, ListVolumes);
MOORING_CSI_CALL(Controller, ControllerExpandVolume);
MOORING_CSI_CALL(Controller, CreateSnapshot);
MOORING_CSI_CALL(Controller, DeleteSnapshot);
MOORING_CSI_CALL(Controller, ListSnapshots);
#undef MOORING_CSI_CALL

template <typename Request>
absl::StatusOr<typename CsiCall<Request>::Response> Call(CsiChannel& channel, const Request& request,
                                                         Clock::time_point until) {
  typename CsiCall<Request>::Response response;
  MOORING_RETURN_IF_ERROR(channel.Call(CsiCall<Request>::kMethod, request, response, until));
  return response;
}

// UNAVAILABLE, RESOURCE_EXHAUSTED, DEADLINE_EXCEEDED, ABORTED: the same call may go well later. (d) 8
bool IsWorthAnotherTry(const absl::Status& status);

// The same, again while it is worth another try, with exponential back-off and jitter, as long as `until` leaves time;
// (d) 8. `each` bounds a single try. Gives the last error that is an answer (where every try ended without one:
// DEADLINE_EXCEEDED), which says how often it was tried. CANCELLED: the manager is stopping.
struct RetryPolicy {
  Clock::duration each = std::chrono::seconds(60);
  Clock::duration first_pause = std::chrono::milliseconds(100);
  Clock::duration longest_pause = std::chrono::seconds(5);
  const StopToken* stop = nullptr;  // outlives it; none: it never stops
};
absl::Status Retry(const RetryPolicy& policy, Clock::time_point until,
                   const std::function<absl::Status(Clock::time_point)>& call);

// The words of such an error without what may be another with each round: to tell whether it is news.
std::string_view WithoutTries(std::string_view words);

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_CSI_CSI_CHANNEL_H_
