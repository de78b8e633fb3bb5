#include "manager/api/calls.h"

#include <chrono>

#include "base/status.h"
#include "manager.pb.h"

namespace mooring::manager {
namespace {

using google::protobuf::FieldDescriptor;
using ProtoMessage = google::protobuf::Message;

constexpr std::chrono::hours kNoDeadline{24 * 365};

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

std::string SubjectOf(const ProtoMessage& request) {
  for (std::string name : {VolumeOf(request), FieldText(request, "name"), FieldText(request, "allocation")}) {
    if (!name.empty()) return name;
  }
  return "";
}

log::Fields LoggedFields(const ProtoMessage& request) {
  log::Fields fields;
  if (std::string volume = VolumeOf(request); !volume.empty()) fields.emplace_back("volume", std::move(volume));
  constexpr const char* kLogged[] = {"name",    "plugin",      "id",          "allocation",
                                     "request", "attach_path", "declared_by", "endpoint"};
  for (const char* name : kLogged) {
    if (std::string text = FieldText(request, name); !text.empty()) fields.emplace_back(name, std::move(text));
  }
  return fields;
}

// Clients repeat these calls all the time.
bool IsRoutine(const std::string& method, const log::Fields& /*fields*/) {
  return method.starts_with("List") || method.starts_with("Get") || method == "Watch" || method == "StreamEvents";
}

// CANCELLED tells a client that it has cancelled the call itself.
absl::Status WithClientsCode(const absl::Status& status, Length length, const grpc::ServerContext& context) {
  if (length == Length::kEndless && absl::IsUnavailable(status) && context.IsCancelled()) {
    return absl::CancelledError("the caller went away");
  }
  if (absl::IsCancelled(status) && !context.IsCancelled()) {
    return Unavailable(Message(status) + "; ask again when it is back");
  }
  return status;
}

}  // namespace

Calls::Calls(CallRecorder* recorder)
    : calls_({.stopping = Unavailable("the manager is stopping; ask again when it is back"),
              .subject = SubjectOf,
              .fields = LoggedFields,
              .is_routine = IsRoutine},
             recorder) {}

grpc::Status Calls::Run(grpc::ServerContext& context, const ProtoMessage& request, Length length,
                        const std::function<absl::Status(const ApiCall&)>& handler) {
  const ApiCall call{WorkDeadline(context, OwnTime(length), kNoDeadline),
                     [&] { return context.IsCancelled() || calls_.is_draining(); }};
  return calls_.Run(request, {.until = call.until, .stream = length == Length::kEndless ? &context : nullptr},
                    [&] { return WithClientsCode(handler(call), length, context); });
}

}  // namespace mooring::manager
