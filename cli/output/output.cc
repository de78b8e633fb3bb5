#include "cli/output/output.h"

#include <google/protobuf/util/json_util.h>

#include "base/status.h"

namespace mooring::cli {

absl::StatusOr<std::string> MessageJson(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string json;
  const auto status = google::protobuf::util::MessageToJsonString(message, &json, options);
  if (!status.ok()) return Internal("convert the answer to JSON: " + status.ToString());
  return json;
}

absl::Status Output::Flush() {
  return out_.flush() ? absl::OkStatus() : absl::CancelledError("cannot write the answer to the standard output");
}

absl::Status Output::Show(const google::protobuf::Message& message, std::string_view text) {
  if (!json_) return ShowLine(std::string(), text);
  MOORING_ASSIGN_OR_RETURN(const std::string json, MessageJson(message));
  return ShowLine(json, text);
}

absl::Status Output::ShowLine(const std::string& json, std::string_view text) {
  if (json_) {
    out_ << json << '\n';
  } else {
    out_ << text;
  }
  return absl::OkStatus();
}

absl::Status Output::Show(std::initializer_list<Member> members, std::string_view text) {
  JsonObject object;
  for (const auto& [name, message] : members) {
    if (!json_ || message == nullptr) continue;
    MOORING_ASSIGN_OR_RETURN(const std::string json, MessageJson(*message));
    object.AddRaw(name, json);
  }
  return ShowLine(object.ToString(), text);
}

}  // namespace mooring::cli
