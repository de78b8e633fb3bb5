// What happens once around every RPC, whatever it does: size limits, waiting until the plugin has reconciled, the
// conversion of the error, one log line, the metrics. A service method is then an entry in a table:
//
//   grpc::Status NodeStageVolume(grpc::ServerContext* context, const Request* request, Response* response) override {
//     return rpc_.Serve(context, *request, response, [&](const Call& call) { return Stage(*request, call); });
//   }
#ifndef MOORING_PLUGIN_API_RPC_H_
#define MOORING_PLUGIN_API_RPC_H_

#include <google/protobuf/message.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "metrics/call_recorder.h"
#include "plugin/api/readiness.h"
#include "plugin/model/call.h"

namespace mooring {

class Rpc {
 public:
  enum class When { kAlways, kWhenReady };  // kAlways: answers before the plugin has reconciled, too

  // `recorder` is told of every call; null: nobody is.
  explicit Rpc(Readiness& readiness, CallRecorder* recorder = nullptr) : readiness_(readiness), recorder_(recorder) {}

  // `handler` takes a Call and gives an absl::StatusOr<Response>. An exception (SQLite, out of memory) is INTERNAL.
  template <typename Request, typename Response, typename Handler>
  grpc::Status Serve(grpc::ServerContext* context, const Request& request, Response* response, Handler handler,
                     When when = When::kWhenReady) {
    return Run(*context, request, when, [&](const Call& call) -> absl::Status {
      absl::StatusOr<Response> result = handler(call);
      if (!result.ok()) return std::move(result).status();
      *response = *std::move(result);
      return absl::OkStatus();
    });
  }

  // Of a call whose handler sends its answers itself, one after another, and gives an absl::Status. Between them it
  // asks is_draining: a stream is no reason not to stop.
  template <typename Request, typename Handler>
  grpc::Status ServeStream(grpc::ServerContext* context, const Request& request, Handler handler) {
    return Run(*context, request, When::kWhenReady, handler);
  }
  bool is_draining();

  // The end: calls that come from now on are UNAVAILABLE, as are those that wait for the plugin to be ready. Returns
  // when none is under way any more, or at the deadline: then those that are left, as "NodeStageVolume 'vol-…'".
  std::vector<std::string> Drain(std::chrono::steady_clock::time_point deadline);

 private:
  grpc::Status Run(grpc::ServerContext& context, const google::protobuf::Message& request, When when,
                   const std::function<absl::Status(const Call&)>& handler);

  absl::Status Begin(const google::protobuf::Message& request);
  void End(const google::protobuf::Message& request);

  Readiness& readiness_;
  CallRecorder* const recorder_;
  std::mutex mutex_;
  std::condition_variable idle_;
  std::multiset<const google::protobuf::Message*> under_way_;
  bool draining_ = false;
};

// The request as one line for the debug log: csi_secret fields and mount flags are left out, control characters
// escaped.
std::string Redacted(const google::protobuf::Message& request);

// CSI 1.12 "Size Limits": strings 128 bytes, maps 4 KiB, mount flags 4 KiB together.
// INVALID_ARGUMENT names the field. Not looked at: ids (one that is too long is an unknown one) and paths
// (NormalisePath).
absl::Status CheckSizes(const google::protobuf::Message& request);

}  // namespace mooring

#endif  // MOORING_PLUGIN_API_RPC_H_
