#include "manager/api/calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <optional>
#include <string_view>

#include "absl/cleanup/cleanup.h"
#include "base/deadline.h"
#include "base/log.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "manager.pb.h"
#include "manager/records/hide_secrets.h"
#include "rpc/status.h"

namespace mooring::manager {
namespace {

using google::protobuf::FieldDescriptor;
using ProtoMessage = google::protobuf::Message;

// Time that is kept back from a caller's deadline, to answer within it.
constexpr std::chrono::milliseconds kTimeToAnswer{100};
constexpr std::chrono::hours kNoDeadline{24 * 365};

// Streams look every second whether they are to end.
constexpr std::chrono::milliseconds kTimeToEnd{1500};

Clock::duration OwnTime(Length length) {
  switch (length) {
    case Length::kShort:
      return std::chrono::seconds(60);
    case Length::kLong:
      return std::chrono::minutes(10);
    case Length::kEndless:
      return kNoDeadline;
  }
  return {};
}

Clock::time_point UntilOf(const grpc::ServerContext& context, Length length) {
  if (context.deadline() == std::chrono::system_clock::time_point::max()) return Clock::now() + OwnTime(length);
  const auto left = context.deadline() - std::chrono::system_clock::now() - kTimeToAnswer;
  return Clock::now() + std::min(std::chrono::duration_cast<Clock::duration>(left), Clock::duration(kNoDeadline));
}

absl::Status RunGuarded(const std::function<absl::Status(const ApiCall&)>& handler, const ApiCall& call) {
  const DeadlineScope deadline(call.until);  // for what may hang below
  try {
    return handler(call);
  } catch (const std::exception& error) {
    return Internal(fmt::format("unexpected: {}", error.what()));
  }
}

std::string MethodOf(const ProtoMessage& request) {
  std::string name = request.GetDescriptor()->name();
  constexpr std::string_view kSuffix = "Request";
  if (name.ends_with(kSuffix)) name.resize(name.size() - kSuffix.size());
  return name;
}

std::string FieldText(const ProtoMessage& message, const char* name) {
  const FieldDescriptor* field = message.GetDescriptor()->FindFieldByName(name);
  if (field == nullptr || field->is_repeated() || field->cpp_type() != FieldDescriptor::CPPTYPE_STRING) return "";
  return message.GetReflection()->GetString(message, field);
}

// "prod/db" of the volume that a request is about, whichever field names it.
std::string VolumeOf(const ProtoMessage& message) {
  const std::string id = FieldText(message, "id");
  if (message.GetDescriptor() == v1::VolumeKey::descriptor()) {
    const std::string ns = FieldText(message, "namespace");
    return ns.empty() ? id : ns + "/" + id;
  }
  std::vector<const FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->is_repeated() || (field->name() != "key" && field->name() != "volume")) continue;
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
    return VolumeOf(message.GetReflection()->GetMessage(message, field));
  }
  return "";
}

std::string CallText(const ProtoMessage& request) {
  for (const std::string& name : {VolumeOf(request), FieldText(request, "name"), FieldText(request, "allocation")}) {
    if (!name.empty()) return fmt::format("{} {}", MethodOf(request), Quote(name, 64));
  }
  return MethodOf(request);
}

log::Fields FieldsOf(const ProtoMessage& request) {
  log::Fields fields = {{"method", MethodOf(request)}};
  if (std::string volume = VolumeOf(request); !volume.empty()) fields.emplace_back("volume", std::move(volume));
  constexpr const char* kShown[] = {"name",    "plugin",      "id",          "allocation",
                                    "request", "attach_path", "declared_by", "endpoint"};
  for (const char* name : kShown) {
    if (std::string text = FieldText(request, name); !text.empty()) fields.emplace_back(name, std::move(text));
  }
  return fields;
}

// What clients ask all the time is of no interest while it is well.
bool IsRoutine(const std::string& method) {
  return method.starts_with("List") || method.starts_with("Get") || method == "Watch" || method == "StreamEvents";
}

log::Level LevelOf(const absl::Status& status, const std::string& method) {
  if (!status.ok() && !absl::IsCancelled(status)) return log::Level::kWarning;
  return IsRoutine(method) ? log::Level::kDebug : log::Level::kInfo;
}

// One line a call. Only ids and paths of the request: nothing that could be a secret.
void LogCall(const ProtoMessage& request, const absl::Status& status, Clock::duration took) {
  const log::Level level = LevelOf(status, MethodOf(request));
  if (!log::Enabled(level)) return;
  log::Fields fields = FieldsOf(request);
  fields.emplace_back("ms", std::chrono::duration<double, std::milli>(took).count());
  fields.emplace_back("code", absl::StatusCodeToString(status.code()));
  if (!status.ok()) fields.emplace_back("cause", WithoutSecretsOf(request, Message(status)));
  log::Write(level, "call", fields);
}

}  // namespace

grpc::Status Calls::Run(grpc::ServerContext& context, const ProtoMessage& request, Length length,
                        const std::function<absl::Status(const ApiCall&)>& handler) {
  const Clock::time_point start = Clock::now();
  const ApiCall call{UntilOf(context, length), [&] { return context.IsCancelled() || is_draining(); }};
  const std::string method = recorder_ == nullptr ? "" : MethodOf(request);
  if (recorder_ != nullptr) recorder_->Begin(method);
  absl::Status status = Begin(request, context, length);
  const absl::Cleanup end = [&] { End(request); };
  if (status.ok()) status = RunGuarded(handler, call);
  if (length == Length::kEndless && absl::IsUnavailable(status) && context.IsCancelled()) {
    status = absl::CancelledError("the caller went away");  // which is no trouble
  }
  if (absl::IsCancelled(status) && !context.IsCancelled()) {  // not by the caller, to whom it would mean that
    status = Unavailable(Message(status) + "; ask again when it is back");
  }
  const Clock::duration took = Clock::now() - start;
  LogCall(request, status, took);
  if (recorder_ != nullptr) {
    recorder_->End(method, status.code(), length == Length::kEndless ? std::nullopt : std::optional(took));
  }
  return ToGrpc(status);
}

absl::Status Calls::Begin(const ProtoMessage& request, grpc::ServerContext& context, Length length) {
  const std::lock_guard<std::mutex> lock(mutex_);
  under_way_[&request] = length == Length::kEndless ? &context : nullptr;
  return draining_ ? Unavailable("the manager is stopping; ask again when it is back") : absl::OkStatus();
}

void Calls::End(const ProtoMessage& request) {
  const std::lock_guard<std::mutex> lock(mutex_);
  under_way_.erase(&request);
  if (under_way_.empty()) idle_.notify_all();
}

bool Calls::is_draining() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return draining_;
}

std::vector<std::string> Calls::Drain(Clock::time_point until) {
  std::unique_lock<std::mutex> lock(mutex_);
  draining_ = true;
  const auto is_idle = [this] { return under_way_.empty(); };
  if (!idle_.wait_until(lock, std::min(until, Clock::now() + kTimeToEnd), is_idle)) {
    for (const auto& [request, stream] : under_way_) {
      if (stream != nullptr) stream->TryCancel();
    }
    idle_.wait_until(lock, until, is_idle);
  }
  std::vector<std::string> left;
  for (const auto& [request, stream] : under_way_) left.push_back(CallText(*request));
  return left;
}

}  // namespace mooring::manager
