// The connection to a CSI driver or to the manager: one call at a time, each with a deadline. Also why a socket does
// not answer, the progress of a call, and requests without their secrets.
#pragma once

#include <google/protobuf/message.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <ostream>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/status.h"
#include "rpc/status.h"

namespace mooring::cli {

// How errors describe a server and its socket.
struct ServerDescription {
  const char* name = "driver";
  const char* socket = "a CSI driver's socket";
  const char* start = "start the driver";
  const char* flag = "--endpoint";  // that names the socket
  const char* user = "as root";     // how to get access to it
};

// Why a call did not reach its server, and what to do: the error of gRPC tells neither. Empty if a process serves the
// socket, so that the error is from that process.
std::string SocketProblem(const std::string& path, const ServerDescription& server = {});

// Whether a driver may serve a socket that does not answer: this user may not open it, or its queue is full. Then
// starting another driver does not help.
bool MayBeServed(const std::string& path);

// Whether the server may come up by itself: its socket is missing, is not served yet, or its queue is full.
bool MayComeUp(const std::string& path);

// A line on a terminal that shows how long a call has been under way. It is cleared when the answer arrives.
class Progress {
 public:
  // Shows nothing for a call that ends within `patience`.
  Progress(std::string call, std::ostream& terminal, std::chrono::milliseconds patience = std::chrono::seconds(2));
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Sets the step of the call: "Attach: stage: 3 s".
  void Say(std::string step);

 private:
  void Show();

  const std::string call_;
  std::ostream& terminal_;
  const std::chrono::milliseconds patience_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string step_;
  bool over_ = false;
  std::thread thread_;
};

// How --verbose shows a field of a request.
enum class Sensitivity {
  kPlain,
  kSecret,  // the values are never shown
  kFlags,   // mount flags: the text after a '=' may be a password
};
using Classify = Sensitivity (*)(const google::protobuf::FieldDescriptor& field);

// A copy with "***" for the values of secret fields, and after the '=' of mount flags.
std::unique_ptr<google::protobuf::Message> Redacted(const google::protobuf::Message& message, Classify classify);

// For CSI messages: fields with the option csi_secret, and mount flags.
Sensitivity ClassifyCsi(const google::protobuf::FieldDescriptor& field);

struct ClientOptions {
  std::string socket_path;
  std::chrono::milliseconds timeout;
  bool show_time = false;  // --time and --verbose
  bool verbose = false;
  ServerDescription server = {};
  Classify classify = nullptr;  // which fields of a request are secret
};

// A call of a service: &csi::v1::Node::Stub::NodeGetInfo.
template <typename Stub, typename Request, typename Response>
using Method = grpc::Status (Stub::*)(grpc::ClientContext*, const Request&, Response*);

// The same for a call that is answered by a stream: &csi::v1::SnapshotMetadata::Stub::GetMetadataDelta.
template <typename Stub, typename Request, typename Response>
using StreamMethod = std::unique_ptr<grpc::ClientReader<Response>> (Stub::*)(grpc::ClientContext*, const Request&);

class Client {
 public:
  using Clock = std::chrono::system_clock;  // deadlines of gRPC are wall-clock times
  using Elapsed = std::chrono::steady_clock::duration;

  struct Limit {
    Clock::time_point deadline;
    std::chrono::milliseconds time;  // for the error: the time until the deadline
    const char* flag;                // for the error: the flag that changes it
  };

  // Does not connect before the first call. The output of --time and --verbose goes to `trace`.
  Client(ClientOptions options, std::ostream& trace);

  // An error carries the name of the call (cli/output/report.h). UNAVAILABLE: the socket is missing or no process
  // serves it; the message says what to do.
  template <typename Stub, typename Request, typename Response>
  absl::StatusOr<Response> Call(Method<Stub, Request, Response> method, const Request& request) const {
    const Limit limit = CallLimit();
    const absl::Status connected = Connect(limit.deadline);
    if (!connected.ok()) return Finish(CallName(request), connected, limit);
    return Send(method, request, limit, /*wait=*/false);
  }

  // The same, but waits for a missing or dead socket, until `wait` or the timeout of the call is over.
  template <typename Stub, typename Request, typename Response>
  absl::StatusOr<Response> CallWhenServed(Method<Stub, Request, Response> method, const Request& request,
                                          const Limit& wait) const {
    const Limit call = CallLimit();
    return Send(method, request, wait.deadline < call.deadline ? wait : call, /*wait=*/true);
  }

  // Passes each message of the answer to `take`. An error of `take` ends the call.
  template <typename Stub, typename Response, typename Request, typename Take>
  absl::Status Stream(StreamMethod<Stub, Request, Response> method, const Request& request, Take take) const {
    return Stream(method, request, take, CallLimit());
  }

  // The same, with a limit other than the timeout of the call.
  template <typename Stub, typename Response, typename Request, typename Take>
  absl::Status Stream(StreamMethod<Stub, Request, Response> method, const Request& request, Take take,
                      const Limit& limit) const {
    const Limit call = CallLimit();
    const absl::Status connected = Connect(std::min(call.deadline, limit.deadline));
    if (!connected.ok()) return Finish(CallName(request), connected, call.deadline < limit.deadline ? call : limit);
    grpc::ClientContext context;
    context.set_deadline(limit.deadline);
    TraceRequest(request);
    Stub stub(channel_);
    const auto start = std::chrono::steady_clock::now();
    const auto reader = (stub.*method)(&context, request);
    absl::Status taken;
    for (Response piece; taken.ok() && reader->Read(&piece);) taken = take(piece);
    if (!taken.ok()) context.TryCancel();
    const grpc::Status status = reader->Finish();
    TraceTime(request, std::chrono::steady_clock::now() - start);
    MOORING_RETURN_IF_ERROR(taken);
    return Finish(CallName(request), FromGrpc(status), limit);
  }

  // On a terminal, shows how long the call has been under way, until the object is destroyed. Otherwise null.
  std::unique_ptr<Progress> ShowProgress(const google::protobuf::Message& request) const;

  Limit CallLimit() const { return {Clock::now() + options_.timeout, options_.timeout, "--timeout"}; }
  std::chrono::milliseconds timeout() const { return options_.timeout; }
  bool verbose() const { return options_.verbose; }
  std::ostream& trace() const { return trace_; }

 private:
  template <typename Stub, typename Request, typename Response>
  absl::StatusOr<Response> Send(Method<Stub, Request, Response> method, const Request& request, const Limit& limit,
                                bool wait) const {
    grpc::ClientContext context;
    context.set_deadline(limit.deadline);
    context.set_wait_for_ready(wait);
    TraceRequest(request);
    Stub stub(channel_);
    Response response;
    const auto start = std::chrono::steady_clock::now();
    std::unique_ptr<Progress> progress = ShowProgress(request);
    const grpc::Status status = (stub.*method)(&context, request, &response);
    progress.reset();
    TraceTime(request, std::chrono::steady_clock::now() - start);
    MOORING_RETURN_IF_ERROR(Finish(CallName(request), FromGrpc(status), limit));
    return response;
  }

  // "NodeGetInfo" for a NodeGetInfoRequest: the services of Mooring and CSI name every request after its call.
  static std::string CallName(const google::protobuf::Message& request);

  absl::Status Connect(Clock::time_point deadline) const;
  absl::Status Finish(const std::string& call, const absl::Status& status, const Limit& limit) const;
  void TraceRequest(const google::protobuf::Message& request) const;
  void TraceTime(const google::protobuf::Message& request, Elapsed elapsed) const;

  ClientOptions options_;
  std::ostream& trace_;
  std::shared_ptr<grpc::Channel> channel_;
};

}  // namespace mooring::cli
