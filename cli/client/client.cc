#include "cli/client/client.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <utility>
#include <vector>

#include "base/file/unique_fd.h"
#include "base/socket_path.h"
#include "base/text/quote.h"
#include "base/text/terminal_text.h"
#include "cli/output/output.h"
#include "cli/output/report.h"
#include "csi.pb.h"
#include "rpc/server_limits.h"

namespace mooring::cli {
namespace {

int ConnectError(const std::string& socket_path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, socket_path.data(), std::min(socket_path.size(), sizeof(address.sun_path) - 1));
  const UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.ok()) return errno;
  return ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 ? 0 : errno;
}

bool IsSocket(const std::string& path) {
  struct stat status = {};
  return ::stat(path.c_str(), &status) == 0 && S_ISSOCK(status.st_mode);
}

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kTick{500};
constexpr char kWipe[] = "\r\033[K";  // moves to the beginning of the line and clears it

using google::protobuf::FieldDescriptor;

constexpr char kBlank[] = "***";

void RedactIn(google::protobuf::Message& message, Classify classify);

// A map of strings keeps its keys. Any other field is cleared.
void BlankSecrets(google::protobuf::Message& message, const FieldDescriptor& field) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  if (!field.is_map()) {
    reflection.ClearField(&message, &field);
    return;
  }
  for (int i = 0; i < reflection.FieldSize(message, &field); ++i) {
    google::protobuf::Message& entry = *reflection.MutableRepeatedMessage(&message, &field, i);
    entry.GetReflection()->SetString(&entry, entry.GetDescriptor()->map_value(), kBlank);
  }
}

void RedactBelow(google::protobuf::Message& message, const FieldDescriptor& field, Classify classify) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  if (field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE || field.is_map()) return;
  if (!field.is_repeated()) return RedactIn(*reflection.MutableMessage(&message, &field), classify);
  for (int i = 0; i < reflection.FieldSize(message, &field); ++i) {
    RedactIn(*reflection.MutableRepeatedMessage(&message, &field, i), classify);
  }
}

void BlankFlags(google::protobuf::Message& message, const FieldDescriptor& field) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  for (int i = 0; i < reflection.FieldSize(message, &field); ++i) {
    const std::string flag = reflection.GetRepeatedString(message, &field, i);
    const std::size_t equals = flag.find('=');
    if (equals == std::string::npos) continue;
    reflection.SetRepeatedString(&message, &field, i, flag.substr(0, equals + 1) + kBlank);
  }
}

void RedactIn(google::protobuf::Message& message, Classify classify) {
  std::vector<const FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    switch (classify(*field)) {
      case Sensitivity::kSecret:
        BlankSecrets(message, *field);
        break;
      case Sensitivity::kFlags:
        BlankFlags(message, *field);
        break;
      case Sensitivity::kPlain:
        RedactBelow(message, *field, classify);
        break;
    }
  }
}

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

bool MayBeServed(const std::string& path) {
  const int error = ConnectError(path);
  return error == EACCES || error == EAGAIN;
}

bool MayComeUp(const std::string& path) {
  const int error = ConnectError(path);
  return error == 0 || error == ENOENT || error == EAGAIN || (error == ECONNREFUSED && IsSocket(path));
}

std::string SocketProblem(const std::string& path, const ServerDescription& server) {
  switch (const int error = ConnectError(path)) {
    case 0:
      return "";
    case ENOENT:
      return fmt::format("there is no socket at {}: {}, or name its socket with {}", Quote(path), server.start,
                         server.flag);
    case ECONNREFUSED:
      if (!IsSocket(path)) {
        return fmt::format("{} is not a socket: name the socket of the {} with {}", Quote(path), server.name,
                           server.flag);
      }
      return fmt::format("no process serves the socket {}: the {} that created it has ended, start it again",
                         Quote(path), server.name);
    case EACCES:
      return fmt::format("this user may not open the socket {}: try again {}", Quote(path), server.user);
    case EAGAIN:
      return fmt::format("the {} does not answer at {}: its queue of connections is full", server.name, Quote(path));
    default:
      return ErrnoStatus(error, "connect to the socket", path).ToString();
  }
}

Progress::Progress(std::string call, std::ostream& terminal, std::chrono::milliseconds patience)
    : call_(std::move(call)), terminal_(terminal), patience_(patience), thread_(&Progress::Show, this) {}

Progress::~Progress() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    over_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void Progress::Say(std::string step) {
  const std::lock_guard<std::mutex> lock(mutex_);
  step_ = ": " + Visible(step);
}

void Progress::Show() {
  const Clock::time_point start = Clock::now();
  std::unique_lock<std::mutex> lock(mutex_);
  if (changed_.wait_for(lock, patience_, [this] { return over_; })) return;
  do {
    const auto elapsed = std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - start);
    terminal_ << kWipe << fmt::format("{}{}: {} s", call_, step_, elapsed.count()) << std::flush;
  } while (!changed_.wait_for(lock, kTick, [this] { return over_; }));
  terminal_ << kWipe << std::flush;
}

std::unique_ptr<google::protobuf::Message> Redacted(const google::protobuf::Message& message, Classify classify) {
  std::unique_ptr<google::protobuf::Message> copy(message.New());
  copy->CopyFrom(message);
  RedactIn(*copy, classify);
  return copy;
}

Sensitivity ClassifyCsi(const FieldDescriptor& field) {
  if (field.options().GetExtension(csi::v1::csi_secret)) return Sensitivity::kSecret;
  using Mount = csi::v1::VolumeCapability::MountVolume;
  const bool is_flags =
      field.containing_type() == Mount::descriptor() && field.number() == Mount::kMountFlagsFieldNumber;
  return is_flags ? Sensitivity::kFlags : Sensitivity::kPlain;
}

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
