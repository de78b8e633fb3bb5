// The steps around each CSI call: those of rpc/served_call.h, the size limits of CSI, and waiting until the plugin is
// ready. A service is a table of its calls: MOORING_CSI_CALL.
#pragma once

#include <google/protobuf/message.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "metrics/call_recorder.h"
#include "plugin/api/readiness.h"
#include "plugin/model/call.h"
#include "rpc/served_call.h"

namespace mooring {

class Rpc {
 public:
  enum class When { kAlways, kWhenReady };  // kAlways: answers before the plugin has reconciled, too

  // `recorder` is told of every call, unless it is null.
  explicit Rpc(Readiness& readiness, CallRecorder* recorder = nullptr);

  // `handler` takes a Call and returns an absl::StatusOr<Response>. An exception (SQLite, out of memory) is INTERNAL.
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

  // For a handler that writes its answers itself, one after another, and returns an absl::Status. Between two answers
  // it asks is_draining: a stream must not delay a stop.
  template <typename Request, typename Handler>
  grpc::Status ServeStream(grpc::ServerContext* context, const Request& request, Handler handler) {
    return Run(*context, request, When::kWhenReady, handler);
  }
  bool is_draining() { return calls_.is_draining(); }

  // See ServedCalls::Drain. Calls that wait for the plugin to be ready are UNAVAILABLE, too.
  std::vector<std::string> Drain(std::chrono::steady_clock::time_point deadline);

 private:
  grpc::Status Run(grpc::ServerContext& context, const google::protobuf::Message& request, When when,
                   const std::function<absl::Status(const Call&)>& handler);

  Readiness& readiness_;
  ServedCalls calls_;
};

// A row of a service's table: the call of CSI, the member function that handles it, and Rpc::When. It declares the
// method of gRPC, which calls `rpc_`, and the handler:
//
//   absl::StatusOr<csi::v1::CallResponse> Handler(const csi::v1::CallRequest& request, const Call& call);
#define MOORING_CSI_CALL(CsiCall, Handler, when)                                               \
  grpc::Status CsiCall(grpc::ServerContext* context, const csi::v1::CsiCall##Request* request, \
                       csi::v1::CsiCall##Response* response) override {                        \
    const auto handle = [&](const Call& call) { return Handler(*request, call); };             \
    return rpc_.Serve(context, *request, response, handle, Rpc::When::when);                   \
  }                                                                                            \
  absl::StatusOr<csi::v1::CsiCall##Response> Handler(const csi::v1::CsiCall##Request& request, const Call& call)

// CSI 1.12, "Size Limits": strings 128 bytes, maps 4 KiB, mount flags 4 KiB together. INVALID_ARGUMENT names the field.
// Ids and paths have checks of their own: an id that is too long is unknown, and NormalisePath checks paths.
absl::Status CheckSizes(const google::protobuf::Message& request);

}  // namespace mooring
