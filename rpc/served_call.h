// The steps around each RPC that a server here answers. They are its deadline, the list of running calls, metrics, a
// log line, and the conversion of the error. The plugin and the manager add their own steps: plugin/api/rpc.h,
// manager/api/calls.h.
#pragma once

#include <google/protobuf/message.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/log.h"
#include "metrics/call_recorder.h"

namespace mooring {

// "NodeStageVolume" of a NodeStageVolumeRequest.
std::string MethodOf(const google::protobuf::Message& request);

// The string field of this name. Empty if the message has none.
std::string FieldText(const google::protobuf::Message& message, const char* name);

// When the work on a call ends: the caller's deadline less the time to answer, at most `longest` from now. Without a
// deadline: `own_time` from now.
std::chrono::steady_clock::time_point WorkDeadline(const grpc::ServerContext& context,
                                                   std::chrono::steady_clock::duration own_time,
                                                   std::chrono::steady_clock::duration longest);

class ServedCalls {
 public:
  using Clock = std::chrono::steady_clock;
  using ProtoMessage = google::protobuf::Message;

  // How a server writes about its requests. None of the functions may return a secret.
  struct Wording {
    absl::Status stopping;                        // the answer to new calls once Drain was called
    std::string (*subject)(const ProtoMessage&);  // the object of the request, or empty
    log::Fields (*fields)(const ProtoMessage&);   // for the log line: ids and paths
    bool (*is_routine)(const std::string& method, const log::Fields& fields);  // logged at debug while it succeeds
  };

  // `recorder` is told of every call, unless it is null.
  ServedCalls(Wording wording, CallRecorder* recorder) : wording_(std::move(wording)), recorder_(recorder) {}

  struct Options {
    Clock::time_point until;                // for a DeadlineScope around `work`
    grpc::ServerContext* stream = nullptr;  // of a call that ends only with its caller: Drain cancels it
  };

  // Runs `work` as the call of `request`. An exception (SQLite, out of memory) is INTERNAL.
  grpc::Status Run(const ProtoMessage& request, const Options& options, const std::function<absl::Status()>& work);

  bool is_draining();

  // Refuses new calls, and waits until no call is under way. Streams whose client does not read cannot notice
  // is_draining: they are cancelled after 1.5 s. The result names the calls that are left at the deadline, as
  // "NodeStageVolume 'vol-…'".
  std::vector<std::string> Drain(Clock::time_point deadline);

 private:
  absl::Status Begin(const ProtoMessage& request, grpc::ServerContext* stream);
  void End(const ProtoMessage& request);
  void LogCall(const ProtoMessage& request, const absl::Status& status, Clock::duration took) const;
  std::string CallText(const ProtoMessage& request) const;

  const Wording wording_;
  CallRecorder* const recorder_;
  std::mutex mutex_;
  std::condition_variable idle_;
  std::multimap<const ProtoMessage*, grpc::ServerContext*> under_way_;  // with the context of a stream, else null
  bool draining_ = false;
};

}  // namespace mooring
