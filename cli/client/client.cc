#include "cli/client/client.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "base/socket_path.h"
#include "base/text/quote.h"
#include "base/text/terminal_text.h"
#include "cli/output/failure.h"
#include "cli/output/output.h"
#include "rpc/server_limits.h"

namespace mooring::cli {
namespace {

// Throws std::runtime_error if gRPC could not start its threads: main() prints it.
std::shared_ptr<grpc::Channel> MakeChannel(const ClientOptions& options) {
  if (const absl::Status threads = CheckThreadsForGrpc(); !threads.ok()) throw std::runtime_error(Message(threads));
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);                       // a long list of volumes is one message
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);  // --wait: notice a new socket soon
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 200);
  // Despite its name, this is the time limit of one attempt to connect. It is longer than the timeout of the call: a
  // busy server may accept slowly, and the deadline of the call ends the attempt.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, static_cast<int>(options.timeout.count() + 1000));
  // By default, gRPC sends the path of the socket as the host name, and some servers refuse that.
  arguments.SetString(GRPC_ARG_DEFAULT_AUTHORITY, "localhost");
  return grpc::CreateCustomChannel(GrpcTarget(options.socket_path), grpc::InsecureChannelCredentials(), arguments);
}

// By this clock, a call that its deadline ended may have ended a moment earlier.
constexpr std::chrono::milliseconds kClockSlack{10};

bool IsOver(const Client::Limit& limit) { return Client::Clock::now() + kClockSlack >= limit.deadline; }

std::string Seconds(std::chrono::milliseconds time) {
  return fmt::format("{:g} s", static_cast<double>(time.count()) / 1000);
}

}  // namespace

Client::Client(ClientOptions options, std::ostream& trace)
    : options_(std::move(options)), trace_(trace), channel_(MakeChannel(options_)) {}

std::string Client::CallName(const google::protobuf::Message& request) {
  const std::string& name = request.GetDescriptor()->name();
  return name.substr(0, name.size() - std::strlen("Request"));
}

// Connects before the call, so that --time shows the time of the call alone.
absl::Status Client::Connect(Clock::time_point deadline) const {
  for (;;) {
    const grpc_connectivity_state state = channel_->GetState(/*try_to_connect=*/true);
    if (state == GRPC_CHANNEL_READY) return absl::OkStatus();
    if (state == GRPC_CHANNEL_TRANSIENT_FAILURE || state == GRPC_CHANNEL_SHUTDOWN) {
      return Unanswered(
          Unavailable("the connection to {} failed, although a process listens there: check that it is {}",
                      Quote(options_.socket_path), options_.server.socket));
    }
    if (!channel_->WaitForStateChange(state, deadline)) return Unanswered(absl::DeadlineExceededError(""));
  }
}

absl::Status Client::Finish(const std::string& call, const absl::Status& status, const Limit& limit) const {
  if (status.ok()) return status;
  const bool lost = absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
  const std::string problem = lost ? SocketProblem(options_.socket_path, options_.server) : "";
  if (!problem.empty()) return OfCall(Unanswered(Unavailable(problem)), call);
  // A driver may return DEADLINE_EXCEEDED itself, for something that it waits for.
  if (absl::IsDeadlineExceeded(status) && (IsUnanswered(status) || IsOver(limit))) {
    const std::string message = fmt::format("no answer within {}; {} allows more", Seconds(limit.time), limit.flag);
    return OfCall(Unanswered(absl::DeadlineExceededError(message)), call);
  }
  if (!status.message().empty()) return OfCall(status, call);
  const bool unserved = absl::IsUnimplemented(status);
  const char* const what = unserved ? "the {} does not serve this call" : "the {} gave no message";
  return OfCall(absl::Status(status.code(), fmt::format(fmt::runtime(what), options_.server.name)), call);
}

std::unique_ptr<Progress> Client::ShowProgress(const google::protobuf::Message& request) const {
  if (::isatty(STDERR_FILENO) == 0) return nullptr;
  return std::make_unique<Progress>(CallName(request), trace_);
}

void Client::TraceRequest(const google::protobuf::Message& request) const {
  if (!options_.verbose) return;
  const absl::StatusOr<std::string> json = MessageJson(*Redacted(request, options_.classify));
  trace_ << "mooring: " << CallName(request) << ' ' << (json.ok() ? Visible(*json) : "?") << '\n';
}

void Client::TraceTime(const google::protobuf::Message& request, Elapsed elapsed) const {
  if (!options_.show_time) return;
  const std::chrono::duration<double, std::milli> milliseconds = elapsed;
  trace_ << fmt::format("mooring: {} took {:.3f} ms\n", CallName(request), milliseconds.count());
}

}  // namespace mooring::cli
