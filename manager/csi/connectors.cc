#include "manager/csi/connectors.h"

#include <fmt/format.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/socket_path.h"
#include "base/text/clean_text.h"
#include "base/text/quote.h"
#include "base/text/terminal_text.h"
#include "csi.grpc.pb.h"  // with gRPC's serialization of messages
#include "rpc/redact.h"
#include "rpc/status.h"

namespace mooring::manager {
namespace {

using google::protobuf::MessageLite;

std::shared_ptr<grpc::Channel> MakeChannel(const std::string& socket_path) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);  // a list of very many volumes is one message
  arguments.SetMaxSendMessageSize(-1);
  // Short, so that a plugin that was restarted on its path is found soon; an attempt costs next to nothing.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 500);
  // Otherwise channels to the same path share a connection, also one that broke when the plugin died.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  // Some servers refuse the path of a socket as authority.
  arguments.SetString(GRPC_ARG_DEFAULT_AUTHORITY, "localhost");
  return grpc::CreateCustomChannel(GrpcTarget(socket_path), grpc::InsecureChannelCredentials(), arguments);
}

// Uses the monotonic clock, which nobody sets.
gpr_timespec Deadline(Clock::time_point until) {
  if (until == Clock::time_point::max()) return gpr_inf_future(GPR_CLOCK_MONOTONIC);
  const auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(until - Clock::now());
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_nanos(left.count(), GPR_TIMESPAN));
}

// Cleans the message, which is stored and shown: a plugin may send any bytes, of any length, and several lines.
absl::Status FromPlugin(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  return FromGrpc(grpc::Status(status.error_code(), OneLine(CleanText(status.error_message()))));
}

std::string_view NameOf(std::string_view method) { return method.substr(method.rfind('/') + 1); }

grpc::Status HideSecretsOf(const google::protobuf::Message& request, const grpc::Status& status) {
  if (status.ok()) return status;
  return grpc::Status(status.error_code(), WithoutSecretsOf(request, status.error_message(), Reader::kCaller));
}

class GrpcCsiChannel final : public CsiChannel {
 public:
  explicit GrpcCsiChannel(const std::string& socket_path)
      : socket_path_(socket_path), stub_(MakeChannel(socket_path)) {}

  absl::Status Call(const std::string& method, const google::protobuf::Message& request,
                    google::protobuf::Message& response, Clock::time_point until) override {
    grpc::ClientContext context;
    context.set_deadline(Deadline(until));
    MOORING_RETURN_IF_ERROR(Begin(context));
    return End(context, method, HideSecretsOf(request, Ask(context, method, request, response)));
  }

  void Close() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    closed_ = true;
    for (grpc::ClientContext* const call : calls_) call->TryCancel();
  }

 private:
  // As a generated stub does it, for any message type. The queue has one event, the end of the call.
  grpc::Status Ask(grpc::ClientContext& context, const std::string& method, const MessageLite& request,
                   MessageLite& response) {
    grpc::CompletionQueue queue;
    const auto call = stub_.PrepareUnaryCall(&context, method, request, &queue);
    call->StartCall();
    grpc::Status status;
    call->Finish(&response, &status, nullptr);
    void* tag = nullptr;
    bool ok = false;
    queue.Next(&tag, &ok);
    queue.Shutdown();
    while (queue.Next(&tag, &ok)) {
    }
    return status;
  }

  absl::Status Closed() const {
    const std::string message = fmt::format("the connection to the plugin at {} was closed", Quote(socket_path_));
    return absl::CancelledError(message.c_str());
  }

  absl::Status Begin(grpc::ClientContext& context) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (closed_) return Closed();
    calls_.insert(&context);
    return absl::OkStatus();
  }

  // gRPC's own errors for a plugin that is away or silent do not name it, so its socket is added.
  absl::Status End(grpc::ClientContext& context, const std::string& method, const grpc::Status& status) {
    const std::lock_guard<std::mutex> lock(mutex_);
    calls_.erase(&context);
    if (closed_ && status.error_code() == grpc::StatusCode::CANCELLED) return Closed();
    if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
      return Annotate(FromPlugin(status),
                      fmt::format("no answer in time to {} by the plugin at {}", NameOf(method), Quote(socket_path_)));
    }
    if (status.error_code() == grpc::StatusCode::UNAVAILABLE) {
      return Annotate(FromPlugin(status), fmt::format("the plugin at {}", Quote(socket_path_)));
    }
    return FromPlugin(status);
  }

  const std::string socket_path_;
  grpc::TemplatedGenericStub<MessageLite, MessageLite> stub_;
  std::mutex mutex_;
  std::set<grpc::ClientContext*> calls_;  // under way
  bool closed_ = false;
};

class RecordedChannel final : public CsiChannel {
 public:
  RecordedChannel(std::shared_ptr<CsiChannel> channel, CallRecorder& recorder)
      : channel_(std::move(channel)), recorder_(recorder) {}

  absl::Status Call(const std::string& method, const google::protobuf::Message& request,
                    google::protobuf::Message& response, Clock::time_point until) override {
    const std::string_view name = std::string_view(method).substr(method.rfind('/') + 1);
    const Clock::time_point began = Clock::now();
    recorder_.Begin(name);
    absl::Status status = channel_->Call(method, request, response, until);
    recorder_.End(name, status.code(), Clock::now() - began);
    return status;
  }

  void Close() override { channel_->Close(); }

 private:
  const std::shared_ptr<CsiChannel> channel_;
  CallRecorder& recorder_;
};

}  // namespace

std::shared_ptr<CsiChannel> ConnectCsi(const std::string& socket_path) {
  return std::make_shared<GrpcCsiChannel>(socket_path);
}

CsiConnector Recorded(CsiConnector connect, std::function<CallRecorder&(const std::string& plugin)> recorder_of) {
  return [connect = std::move(connect), recorder_of = std::move(recorder_of)](
             const std::string& socket_path, const std::string& plugin) -> std::shared_ptr<CsiChannel> {
    return std::make_shared<RecordedChannel>(connect(socket_path, plugin), recorder_of(plugin));
  };
}

CsiConnector OpenChannels::connector() {
  return [this](const std::string& socket_path, const std::string& plugin) { return Connect(socket_path, plugin); };
}

std::shared_ptr<CsiChannel> OpenChannels::Connect(const std::string& socket_path, const std::string& plugin) {
  std::shared_ptr<CsiChannel> channel = connect_(socket_path, plugin);
  const std::lock_guard<std::mutex> lock(mutex_);
  std::erase_if(channels_, [](const auto& weak) { return weak.expired(); });
  channels_.push_back(channel);
  if (closed_) channel->Close();
  return channel;
}

void OpenChannels::CloseAll() {
  const std::lock_guard<std::mutex> lock(mutex_);
  closed_ = true;
  for (const auto& weak : channels_) {
    if (const auto channel = weak.lock()) channel->Close();
  }
}

}  // namespace mooring::manager
