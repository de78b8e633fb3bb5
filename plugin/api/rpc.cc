#include "plugin/api/rpc.h"

#include <cstddef>
#include <utility>

#include "base/log.h"
#include "base/status.h"
#include "rpc/redact.h"

namespace mooring {
namespace {

using google::protobuf::FieldDescriptor;
using ProtoMessage = google::protobuf::Message;
using google::protobuf::Reflection;

std::string SubjectOf(const ProtoMessage& request) {
  for (const char* field : {"volume_id", "name", "snapshot_id", "group_snapshot_id", "target_snapshot_id"}) {
    std::string text = FieldText(request, field);
    if (!text.empty()) return text;
  }
  return "";
}

log::Fields LoggedFields(const ProtoMessage& request) {
  constexpr std::pair<const char*, const char*> kLogged[] = {
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
  log::Fields fields;
  for (const auto& [field, key] : kLogged) {
    std::string text = FieldText(request, field);
    if (!text.empty()) fields.emplace_back(key, std::move(text));
  }
  return fields;
}

// Orchestrators repeat calls without an object (Probe, capabilities) all the time.
bool IsRoutine(const std::string& /*method*/, const log::Fields& fields) { return fields.empty(); }

constexpr std::size_t kMostText = 128, kMostMap = 4096, kMostMountFlags = 4096;

// 0: not limited here. Paths and ids have checks of their own.
std::size_t LimitOf(const FieldDescriptor& field) {
  const std::string& name = field.name();
  if (name.ends_with("_path") || name.ends_with("_id") || name == "starting_token") return 0;
  return kMostText;
}

absl::Status TooLarge(const FieldDescriptor& field, std::size_t size, std::size_t most) {
  return InvalidArgument("{} has {} bytes, more than the {} that CSI allows", field.name(), size, most);
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

// The entries of a map are messages with a key and a value. In CSI both are strings.
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

Rpc::Rpc(Readiness& readiness, CallRecorder* recorder)
    : readiness_(readiness),
      calls_({.stopping = Stopping(), .subject = SubjectOf, .fields = LoggedFields, .is_routine = IsRoutine},
             recorder) {}

grpc::Status Rpc::Run(grpc::ServerContext& context, const ProtoMessage& request, When when,
                      const std::function<absl::Status(const Call&)>& handler) {
  if (log::Enabled(log::Level::kDebug)) {
    log::Debug("request", {{"method", MethodOf(request)}, {"fields", Redacted(request)}});
  }
  const Call call{WorkDeadline(context, Call::kLongestWait, Call::kLongestWait)};
  return calls_.Run(request, {.until = call.wait_until}, [&]() -> absl::Status {
    MOORING_RETURN_IF_ERROR(CheckSizes(request));
    if (when == When::kWhenReady) MOORING_RETURN_IF_ERROR(readiness_.Wait(call.wait_until));
    return handler(call);
  });
}

std::vector<std::string> Rpc::Drain(std::chrono::steady_clock::time_point deadline) {
  readiness_.Stop();
  return calls_.Drain(deadline);
}

absl::Status CheckSizes(const ProtoMessage& message) {
  std::vector<const FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) MOORING_RETURN_IF_ERROR(CheckField(message, *field));
  return absl::OkStatus();
}

}  // namespace mooring
