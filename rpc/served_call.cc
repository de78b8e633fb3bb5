#include "rpc/served_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <optional>
#include <string_view>

#include "absl/cleanup/cleanup.h"
#include "base/deadline.h"
#include "base/exception.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "rpc/redact.h"
#include "rpc/status.h"

namespace mooring {
namespace {

using google::protobuf::FieldDescriptor;
using ProtoMessage = google::protobuf::Message;
using Clock = ServedCalls::Clock;

// Subtracted from the caller's deadline, so that the answer arrives before it.
constexpr std::chrono::milliseconds kTimeToAnswer{100};

// Streams ask is_draining every second.
constexpr std::chrono::milliseconds kTimeToEndStreams{1500};

absl::Status RunGuarded(const std::function<absl::Status()>& work, Clock::time_point until) {
  const DeadlineScope deadline(until);
  try {
    return work();
  } catch (const std::exception& error) {
    return ExceptionStatus(error);
  }
}

}  // namespace

std::string MethodOf(const google::protobuf::Message& request) {
  std::string name = request.GetDescriptor()->name();
  constexpr std::string_view kSuffix = "Request";
  if (name.ends_with(kSuffix)) name.resize(name.size() - kSuffix.size());
  return name;
}

std::string FieldText(const google::protobuf::Message& message, const char* name) {
  const FieldDescriptor* field = message.GetDescriptor()->FindFieldByName(name);
  if (field == nullptr || field->is_repeated() || field->cpp_type() != FieldDescriptor::CPPTYPE_STRING) return "";
  return message.GetReflection()->GetString(message, field);
}

Clock::time_point WorkDeadline(const grpc::ServerContext& context, Clock::duration own_time, Clock::duration longest) {
  if (context.deadline() == std::chrono::system_clock::time_point::max()) return Clock::now() + own_time;
  const auto left = context.deadline() - std::chrono::system_clock::now() - kTimeToAnswer;
  return Clock::now() + std::min(std::chrono::duration_cast<Clock::duration>(left), longest);
}

grpc::Status ServedCalls::Run(const ProtoMessage& request, const Options& options,
                              const std::function<absl::Status()>& work) {
  const Clock::time_point start = Clock::now();
  const std::string method = recorder_ == nullptr ? "" : MethodOf(request);
  if (recorder_ != nullptr) recorder_->Begin(method);
  absl::Status status = Begin(request, options.stream);
  const absl::Cleanup end = [&] { End(request); };
  if (status.ok()) status = RunGuarded(work, options.until);
  const Clock::duration took = Clock::now() - start;
  LogCall(request, status, took);
  if (recorder_ != nullptr) {
    recorder_->End(method, status.code(), options.stream == nullptr ? std::optional(took) : std::nullopt);
  }
  return ToGrpc(status);
}

void ServedCalls::LogCall(const ProtoMessage& request, const absl::Status& status, Clock::duration took) const {
  const bool succeeded = status.ok() || absl::IsCancelled(status);
  if (!log::Enabled(succeeded ? log::Level::kInfo : log::Level::kWarning)) return;
  const std::string method = MethodOf(request);
  log::Fields fields = wording_.fields(request);
  const bool is_routine = succeeded && wording_.is_routine(method, fields);
  fields.emplace(fields.begin(), "method", method);
  fields.emplace_back("ms", std::chrono::duration<double, std::milli>(took).count());
  fields.emplace_back("code", absl::StatusCodeToString(status.code()));
  if (!status.ok()) fields.emplace_back("cause", WithoutSecretsOf(request, Message(status), Reader::kLog));
  log::Write(is_routine ? log::Level::kDebug : succeeded ? log::Level::kInfo : log::Level::kWarning, "call", fields);
}

std::string ServedCalls::CallText(const ProtoMessage& request) const {
  constexpr std::size_t kLongestSubject = 64;
  const std::string subject = wording_.subject(request);
  return subject.empty() ? MethodOf(request) : fmt::format("{} {}", MethodOf(request), Quote(subject, kLongestSubject));
}

absl::Status ServedCalls::Begin(const ProtoMessage& request, grpc::ServerContext* stream) {
  const std::lock_guard<std::mutex> lock(mutex_);
  under_way_.emplace(&request, stream);
  return draining_ ? wording_.stopping : absl::OkStatus();
}

void ServedCalls::End(const ProtoMessage& request) {
  const std::lock_guard<std::mutex> lock(mutex_);
  under_way_.erase(under_way_.find(&request));
  if (under_way_.empty()) idle_.notify_all();
}

bool ServedCalls::is_draining() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return draining_;
}

std::vector<std::string> ServedCalls::Drain(Clock::time_point deadline) {
  std::unique_lock<std::mutex> lock(mutex_);
  draining_ = true;
  const auto is_idle = [this] { return under_way_.empty(); };
  if (!idle_.wait_until(lock, std::min(deadline, Clock::now() + kTimeToEndStreams), is_idle)) {
    for (const auto& [request, stream] : under_way_) {
      if (stream != nullptr) stream->TryCancel();
    }
    idle_.wait_until(lock, deadline, is_idle);
  }
  std::vector<std::string> left;
  for (const auto& [request, stream] : under_way_) left.push_back(CallText(*request));
  return left;
}

}  // namespace mooring
