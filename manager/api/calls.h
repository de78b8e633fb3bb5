// The steps around each call of the manager's API: those of rpc/served_call.h, and a deadline for each length of call.
// LoggedFields in calls.cc names the fields of requests that are logged.
#pragma once

#include <google/protobuf/message.h>
#include <grpcpp/grpcpp.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "manager/csi/csi_channel.h"
#include "metrics/call_recorder.h"
#include "rpc/served_call.h"

namespace mooring::manager {

// A call under way.
struct ApiCall {
  Clock::time_point until;        // when its work ends
  std::function<bool()> is_over;  // for streams: the caller went away, or the manager stops
};

// The time of a call whose caller sets no deadline.
enum class Length {
  kShort,    // 60 s
  kLong,     // 10 minutes: data is made or copied
  kEndless,  // a stream that follows events
};

class Calls {
 public:
  explicit Calls(CallRecorder* recorder);  // told of every call, unless it is null

  // `handler` takes an ApiCall and returns an absl::StatusOr<Response>. An exception (SQLite, out of memory) is
  // INTERNAL.
  template <typename Request, typename Response, typename Handler>
  grpc::Status Serve(grpc::ServerContext* context, const Request& request, Response* response, Length length,
                     Handler handler) {
    return Run(*context, request, length, [&](const ApiCall& call) -> absl::Status {
      absl::StatusOr<Response> result = handler(call);
      if (!result.ok()) return std::move(result).status();
      *response = *std::move(result);
      return absl::OkStatus();
    });
  }

  // For a handler that writes its answers itself and returns an absl::Status.
  template <typename Request, typename Handler>
  grpc::Status ServeStream(grpc::ServerContext* context, const Request& request, Length length, Handler handler) {
    return Run(*context, request, length, handler);
  }

  // See ServedCalls::Drain.
  std::vector<std::string> Drain(Clock::time_point until) { return calls_.Drain(until); }

 private:
  grpc::Status Run(grpc::ServerContext& context, const google::protobuf::Message& request, Length length,
                   const std::function<absl::Status(const ApiCall&)>& handler);

  ServedCalls calls_;
};

}  // namespace mooring::manager
