// What happens once around every call of the API, whatever it does: its deadline, one log line, the conversion of the
// error, and the end of all calls when the manager stops. A method of the service is then an entry in a table.
#ifndef MOORING_MANAGER_API_CALLS_H_
#define MOORING_MANAGER_API_CALLS_H_

#include <google/protobuf/message.h>
#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "manager/csi/csi_channel.h"
#include "metrics/call_recorder.h"

namespace mooring::manager {

// One call under way. Until when it may work: the caller's deadline less the time to answer, or ours.
struct ApiCall {
  Clock::time_point until;
  std::function<bool()> is_over;  // nobody listens any more, or the manager stops: for streams
};

// The time of a call whose caller names none.
enum class Length {
  kShort,    // 60 s
  kLong,     // 10 minutes: data is made or copied
  kEndless,  // a stream that follows what happens
};

class Calls {
 public:
  explicit Calls(CallRecorder* recorder) : recorder_(recorder) {}  // is told of every call; null: nobody is

  // `handler` takes an ApiCall and gives an absl::StatusOr<Response>. An exception (SQLite, out of memory) is INTERNAL.
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

  // Of a call whose handler sends its answers itself and gives an absl::Status.
  template <typename Request, typename Handler>
  grpc::Status ServeStream(grpc::ServerContext* context, const Request& request, Length length, Handler handler) {
    return Run(*context, request, length, handler);
  }

  // Calls that come from now on are UNAVAILABLE, and streams that follow end: those whose client does not read, and so
  // cannot be told, are cancelled a moment later. Returns when none is under way any more,
  // or at `until`: then those that are left, as "Attach 'db'".
  std::vector<std::string> Drain(Clock::time_point until);

 private:
  grpc::Status Run(grpc::ServerContext& context, const google::protobuf::Message& request, Length length,
                   const std::function<absl::Status(const ApiCall&)>& handler);
  absl::Status Begin(const google::protobuf::Message& request, grpc::ServerContext& context, Length length);
  void End(const google::protobuf::Message& request);
  bool is_draining();

  CallRecorder* const recorder_;
  std::mutex mutex_;
  std::condition_variable idle_;
  std::map<const google::protobuf::Message*, grpc::ServerContext*> under_way_;  // null: it ends by itself
  bool draining_ = false;
};

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_API_CALLS_H_
