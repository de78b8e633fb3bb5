// Interface for calls with deadlines to one CSI plugin. connectors.h implements it with gRPC.
//
//   MOORING_ASSIGN_OR_RETURN(const auto info, Call(channel, csi::v1::NodeGetInfoRequest(), until));
#pragma once

#include <google/protobuf/message.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/status.h"
#include "csi.pb.h"

namespace mooring::manager {

using Clock = std::chrono::steady_clock;

class CsiChannel {
 public:
  virtual ~CsiChannel() = default;

  // `method` as in gRPC: "/csi.v1.Node/NodeStageVolume". An error of the plugin keeps its code and message.
  // UNAVAILABLE: nobody serves the socket. DEADLINE_EXCEEDED: no answer by `until`. CANCELLED: after Close. Safe from
  // several threads.
  virtual absl::Status Call(const std::string& method, const google::protobuf::Message& request,
                            google::protobuf::Message& response, Clock::time_point until) = 0;

  // Ends the calls under way, and all later ones.
  virtual void Close() = 0;
};

// Connects to a socket, which need not exist yet. `plugin` is the name of its plugin; empty if it is not known yet.
using CsiConnector =
    std::function<std::shared_ptr<CsiChannel>(const std::string& socket_path, const std::string& plugin)>;

// The name, the service and the response of a request, with a line for each call that the manager makes.
template <typename Request>
struct CsiCall;
#define MOORING_CSI_CALL(service, call)                              \
  template <>                                                        \
  struct CsiCall<csi::v1::call##Request> {                           \
    using Response = csi::v1::call##Response;                        \
    static constexpr char kName[] = #call;                           \
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

// An error begins with the name of the call: "NodeGetInfo: …".
template <typename Request>
absl::StatusOr<typename CsiCall<Request>::Response> Call(CsiChannel& channel, const Request& request,
                                                         Clock::time_point until) {
  typename CsiCall<Request>::Response response;
  const absl::Status status = channel.Call(CsiCall<Request>::kMethod, request, response, until);
  if (!status.ok()) return Annotate(status, CsiCall<Request>::kName);
  return response;
}

// Whether the caller of a call has gone away; null: nobody tells.
using IsAbandoned = std::function<bool()>;

// ABORTED: nobody waits for the call any more, so what has not begun must not begin.
absl::Status CheckAwaited(const IsAbandoned& is_abandoned);

// The error of a wait that the manager's stop has ended: CANCELLED, which within the manager means nothing else. The
// operation has not failed: nothing is recorded and nothing is undone, as if the manager had been killed. The next
// start continues from the records.
absl::Status Stopping();

// Whether the same call may succeed later: UNAVAILABLE, RESOURCE_EXHAUSTED, DEADLINE_EXCEEDED and ABORTED.
bool IsWorthAnotherTry(const absl::Status& status);

// Whether the plugin has refused the call, and has changed nothing. INTERNAL and UNKNOWN may come half-way, and
// RESOURCE_EXHAUSTED may pass.
bool IsRefusal(const absl::Status& status);

// Returns at `until`, or as soon as a stop is requested.
void SleepUntil(const std::stop_token& stop, Clock::time_point until);

struct RetryPolicy {
  Clock::duration each = std::chrono::seconds(60);  // deadline of a single try
  Clock::duration first_pause = std::chrono::milliseconds(100);
  Clock::duration longest_pause = std::chrono::seconds(5);
  std::stop_token stop = {};  // of the manager; the default never stops
  // Asked before each try; an error is the outcome of that try. For the lease of this host: without one it calls
  // nobody.
  std::function<absl::Status()> may_call = [] { return absl::OkStatus(); };
};

// Repeats `call` while IsWorthAnotherTry holds and `until` leaves time, with exponential back-off and jitter. Gives the
// last error that is an answer of the plugin, with the number of tries; DEADLINE_EXCEEDED if no try got an answer.
// Stopping(): the manager is stopping.
absl::Status Retry(const RetryPolicy& policy, Clock::time_point until,
                   const std::function<absl::Status(Clock::time_point)>& call);

// Gives the message of such an error without the number of tries, to compare it with an earlier one.
std::string_view WithoutTries(std::string_view message);

// When something that has failed is tried again: after pauses that double up to a limit.
class BackOff {
 public:
  BackOff(Clock::duration first, Clock::duration longest) : first_(first), longest_(longest), pause_(first) {}

  void Fail() {
    next_try_ = Clock::now() + pause_;
    pause_ = std::min(2 * pause_, longest_);
  }
  void Reset() { pause_ = first_; }  // the next pause is the first again
  void TryNow() { next_try_ = Clock::now(); }
  Clock::time_point next_try() const { return next_try_; }

 private:
  const Clock::duration first_, longest_;
  Clock::duration pause_;
  Clock::time_point next_try_ = Clock::now();
};

}  // namespace mooring::manager
