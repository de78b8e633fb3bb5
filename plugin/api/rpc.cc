#include "plugin/api/rpc.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "base/deadline.h"
#include "base/log.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "csi.pb.h"
#include "rpc/status.h"

namespace mooring {
namespace {

using google::protobuf::FieldDescriptor;
using ProtoMessage = google::protobuf::Message;
using google::protobuf::Reflection;
using Clock = std::chrono::steady_clock;

// Time that is kept back from a caller's deadline, to answer within it.
constexpr std::chrono::milliseconds kTimeToAnswer{100};

Call CallOf(const grpc::ServerContext& context) {
  Call call = Call::WithLongestWait();
  const auto left = context.deadline() - std::chrono::system_clock::now() - kTimeToAnswer;
  const auto longest = call.wait_until - Clock::now();
  if (left < longest) call.wait_until = Clock::now() + std::chrono::duration_cast<Clock::duration>(left);
  return call;
}

absl::Status RunGuarded(const std::function<absl::Status(const Call&)>& handler, const Call& call) {
  const DeadlineScope deadline(call.wait_until);  // for what may hang below
  try {
    return handler(call);
  } catch (const std::exception& error) {
    return Internal(fmt::format("unexpected: {}", error.what()));
  }
}

std::string FieldText(const ProtoMessage& message, const char* name) {
  const FieldDescriptor* field = message.GetDescriptor()->FindFieldByName(name);
  if (field == nullptr || field->is_repeated() || field->cpp_type() != FieldDescriptor::CPPTYPE_STRING) return "";
  return message.GetReflection()->GetString(message, field);
}

std::string MethodOf(const ProtoMessage& request) {
  std::string name = request.GetDescriptor()->name();
  constexpr std::string_view kSuffix = "Request";
  if (name.ends_with(kSuffix)) name.resize(name.size() - kSuffix.size());
  return name;
}

// What stands in a log for a call that did not end.
std::string CallText(const ProtoMessage& request) {
  constexpr std::size_t kLongest = 64;
  for (const char* field : {"volume_id", "name", "snapshot_id", "group_snapshot_id", "target_snapshot_id"}) {
    const std::string text = FieldText(request, field);
    if (!text.empty()) return fmt::format("{} {}", MethodOf(request), Quote(text, kLongest));
  }
  return MethodOf(request);
}

void CollectMountFlags(const ProtoMessage& message, std::vector<std::string>& flags) {
  const Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    const bool nested = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE && !field->is_map();
    if (nested && !field->is_repeated()) CollectMountFlags(reflection.GetMessage(message, field), flags);
    for (int i = 0; field->is_repeated() && i < reflection.FieldSize(message, field); ++i) {
      if (nested) CollectMountFlags(reflection.GetRepeatedMessage(message, field, i), flags);
      if (field->name() == "mount_flags") flags.push_back(reflection.GetRepeatedString(message, field, i));
    }
  }
}

// The answer names a refused mount flag, in quotes, for the caller; the log does not: it may be sensitive.
std::string WithoutMountFlags(std::string cause, const ProtoMessage& request) {
  std::vector<std::string> flags;
  CollectMountFlags(request, flags);
  for (const std::string& element : flags) {
    for (std::size_t start = 0; start <= element.size();) {
      const std::size_t end = std::min(element.find(',', start), element.size());
      const std::string flag = element.substr(start, end - start);
      const std::string quoted = Quote(flag.substr(0, flag.find('=')));
      const std::size_t at = cause.find(quoted);
      if (at != std::string::npos) cause.replace(at, quoted.size(), "'…'");
      start = end + 1;
    }
  }
  return cause;
}

// One line a call. Only ids and paths of the request: nothing that could be a secret.
void LogCall(const ProtoMessage& request, const absl::Status& status, Clock::duration took) {
  if (!log::Enabled(status.ok() ? log::Level::kInfo : log::Level::kWarning)) return;
  log::Fields fields = {{"method", MethodOf(request)}};
  constexpr std::pair<const char*, const char*> kShown[] = {
      {"volume_id", "volume"},
      {"name", "name"},
      {"node_id", "node"},
      {"staging_target_path", "staging"},
      {"target_path", "target"},
      {"volume_path", "path"},
      {"source_volume_id", "source"},
      {"snapshot_id", "snapshot"},
      {"group_snapshot_id", "group"},
      {"base_snapshot_id", "base"},
      {"target_snapshot_id", "target"},
  };
  for (const auto& [field, key] : kShown) {
    std::string text = FieldText(request, field);
    if (!text.empty()) fields.emplace_back(key, std::move(text));
  }
  fields.emplace_back("ms", std::chrono::duration<double, std::milli>(took).count());
  fields.emplace_back("code", absl::StatusCodeToString(status.code()));
  if (!status.ok()) fields.emplace_back("cause", WithoutMountFlags(Message(status), request));
  // What orchestrators ask all the time (Probe, capabilities) is of no interest while it is well.
  const bool routine = status.ok() && fields.size() == 3;
  log::Write(routine ? log::Level::kDebug : status.ok() ? log::Level::kInfo : log::Level::kWarning, "call", fields);
}

bool IsSensitive(const FieldDescriptor& field) {
  return field.options().GetExtension(csi::v1::csi_secret) || field.name() == "mount_flags";
}

void Redact(ProtoMessage& message) {
  const Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (IsSensitive(*field)) {
      reflection.ClearField(&message, field);
    } else if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE || field->is_map()) {
      continue;
    } else if (field->is_repeated()) {
      for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
        Redact(*reflection.MutableRepeatedMessage(&message, field, i));
      }
    } else {
      Redact(*reflection.MutableMessage(&message, field));
    }
  }
}

constexpr std::size_t kMostText = 128, kMostMap = 4096, kMostMountFlags = 4096;

// 0: not limited here. Paths and ids have checks of their own: a path that is too long is not a path, an id not known.
std::size_t LimitOf(const FieldDescriptor& field) {
  const std::string& name = field.name();
  if (name.ends_with("_path") || name.ends_with("_id") || name == "starting_token") return 0;
  return kMostText;
}

absl::Status TooLarge(const FieldDescriptor& field, std::size_t size, std::size_t most) {
  return InvalidArgument(fmt::format("{} has {} bytes, more than the {} that CSI allows", field.name(), size, most));
}

absl::Status CheckRepeatedStrings(const ProtoMessage& message, const FieldDescriptor& field) {
  const Reflection& reflection = *message.GetReflection();
  std::size_t sum = 0;
  for (int i = 0; i < reflection.FieldSize(message, &field); ++i) {
    sum += reflection.GetRepeatedString(message, &field, i).size();
  }
  return field.name() == "mount_flags" && sum > kMostMountFlags ? TooLarge(field, sum, kMostMountFlags)
                                                                : absl::OkStatus();
}

// A map's entries are messages with a key (1) and a value (2), both strings wherever CSI has one.
absl::Status CheckMap(const ProtoMessage& message, const FieldDescriptor& field) {
  const Reflection& reflection = *message.GetReflection();
  std::size_t sum = 0;
  for (int i = 0; i < reflection.FieldSize(message, &field); ++i) {
    const ProtoMessage& entry = reflection.GetRepeatedMessage(message, &field, i);
    sum += FieldText(entry, "key").size() + FieldText(entry, "value").size();
  }
  return sum > kMostMap ? TooLarge(field, sum, kMostMap) : absl::OkStatus();
}

absl::Status CheckMessages(const ProtoMessage& message, const FieldDescriptor& field) {
  const Reflection& reflection = *message.GetReflection();
  if (!field.is_repeated()) return CheckSizes(reflection.GetMessage(message, &field));
  for (int i = 0; i < reflection.FieldSize(message, &field); ++i) {
    MOORING_RETURN_IF_ERROR(CheckSizes(reflection.GetRepeatedMessage(message, &field, i)));
  }
  return absl::OkStatus();
}

absl::Status CheckField(const ProtoMessage& message, const FieldDescriptor& field) {
  if (field.is_map()) return CheckMap(message, field);
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) return CheckMessages(message, field);
  if (field.cpp_type() != FieldDescriptor::CPPTYPE_STRING) return absl::OkStatus();
  if (field.is_repeated()) return CheckRepeatedStrings(message, field);
  const std::size_t most = LimitOf(field);
  const std::size_t size = message.GetReflection()->GetString(message, &field).size();
  return most != 0 && size > most ? TooLarge(field, size, most) : absl::OkStatus();
}

}  // namespace

grpc::Status Rpc::Run(grpc::ServerContext& context, const ProtoMessage& request, When when,
                      const std::function<absl::Status(const Call&)>& handler) {
  const Clock::time_point start = Clock::now();
  const Call call = CallOf(context);
  if (log::Enabled(log::Level::kDebug))
    log::Debug("request", {{"method", MethodOf(request)}, {"fields", Redacted(request)}});
  const std::string method = recorder_ == nullptr ? "" : MethodOf(request);
  if (recorder_ != nullptr) recorder_->Begin(method);
  absl::Status status = Begin(request);
  const absl::Cleanup end = [&] { End(request); };
  if (status.ok()) status = CheckSizes(request);
  if (status.ok() && when == When::kWhenReady) status = readiness_.Wait(call.wait_until);
  if (status.ok()) status = RunGuarded(handler, call);
  const Clock::duration took = Clock::now() - start;
  LogCall(request, status, took);
  if (recorder_ != nullptr) recorder_->End(method, status.code(), took);
  return ToGrpc(status);
}

absl::Status Rpc::Begin(const ProtoMessage& request) {
  const std::lock_guard<std::mutex> lock(mutex_);
  under_way_.insert(&request);
  return draining_ ? Stopping() : absl::OkStatus();
}

void Rpc::End(const ProtoMessage& request) {
  const std::lock_guard<std::mutex> lock(mutex_);
  under_way_.erase(under_way_.find(&request));
  if (under_way_.empty()) idle_.notify_all();
}

bool Rpc::is_draining() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return draining_;
}

std::vector<std::string> Rpc::Drain(Clock::time_point deadline) {
  readiness_.Stop();
  std::unique_lock<std::mutex> lock(mutex_);
  draining_ = true;
  idle_.wait_until(lock, deadline, [this] { return under_way_.empty(); });
  std::vector<std::string> left;
  for (const ProtoMessage* request : under_way_) left.push_back(CallText(*request));
  return left;
}

std::string Redacted(const ProtoMessage& request) {
  const std::unique_ptr<ProtoMessage> copy(request.New());
  copy->CopyFrom(request);
  Redact(*copy);
  return copy->ShortDebugString();
}

absl::Status CheckSizes(const ProtoMessage& message) {
  std::vector<const FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) MOORING_RETURN_IF_ERROR(CheckField(message, *field));
  return absl::OkStatus();
}

}  // namespace mooring
