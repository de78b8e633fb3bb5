#include "cli/manager/parse/volume_file.h"

#include <fmt/format.h>
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/status.h"
#include "base/text/quote.h"
#include "base/text/size.h"
#include "cli/flags/flag_values.h"
#include "cli/manager/parse/value_text.h"

namespace mooring::cli::manager_area {
namespace {

using google::protobuf::Struct;
using google::protobuf::Value;
using Fields = google::protobuf::Map<std::string, Value>;

// Removes the member `name` from `fields` and returns it.
std::optional<Value> Take(Fields& fields, const std::string& name) {
  const auto at = fields.find(name);
  if (at == fields.end()) return std::nullopt;
  Value value = at->second;
  fields.erase(at);
  return value;
}

absl::StatusOr<std::string> TakeText(Fields& fields, const std::string& name) {
  const std::optional<Value> value = Take(fields, name);
  if (!value) return "";
  if (value->kind_case() == Value::kStringValue) return value->string_value();
  return InvalidArgument("{} is not a string", Quote(name));
}

// Moves "id" and "namespace" into "key".
absl::Status SetKey(Fields& fields) {
  MOORING_ASSIGN_OR_RETURN(const std::string id, TakeText(fields, "id"));
  MOORING_ASSIGN_OR_RETURN(const std::string ns, TakeText(fields, "namespace"));
  if (id.empty() && ns.empty()) return absl::OkStatus();
  Fields& key = *fields["key"].mutable_struct_value()->mutable_fields();
  if (!id.empty()) key["id"].set_string_value(id);
  if (!ns.empty()) key["namespace"].set_string_value(ns);
  return absl::OkStatus();
}

// A size is a string, or a number of bytes. The rule of ParseSize is for both.
absl::Status SetSize(Fields& fields, const std::string& word, const std::string& name) {
  const std::optional<Value> value = Take(fields, word);
  if (!value) return absl::OkStatus();
  const bool is_number = value->kind_case() == Value::kNumberValue;
  const absl::StatusOr<std::int64_t> size =
      ParseSize(is_number ? fmt::format("{}", value->number_value()) : value->string_value());
  if (!size.ok()) return Annotate(size.status(), Quote(word));
  fields[name].set_string_value(std::to_string(*size));  // JSON numbers are not exact above 2^53
  return absl::OkStatus();
}

template <typename Enum>
absl::Status SetConstant(Fields& fields, const char* name, absl::StatusOr<Enum> (*parse)(std::string_view)) {
  const auto at = fields.find(name);
  if (at == fields.end() || at->second.kind_case() != Value::kStringValue) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(const Enum value, parse(at->second.string_value()));
  at->second.set_number_value(value);
  return absl::OkStatus();
}

absl::Status SetCapabilities(Fields& fields) {
  const auto at = fields.find("capabilities");
  if (at == fields.end() || at->second.kind_case() != Value::kListValue) return absl::OkStatus();
  for (Value& capability : *at->second.mutable_list_value()->mutable_values()) {
    if (capability.kind_case() != Value::kStructValue) continue;  // the parser of the whole object reports it
    Fields& members = *capability.mutable_struct_value()->mutable_fields();
    MOORING_RETURN_IF_ERROR(SetConstant(members, "access", ParseAccessMode));
    MOORING_RETURN_IF_ERROR(SetConstant(members, "attachment", ParseAttachmentMode));
  }
  return absl::OkStatus();
}

// {"zone": "a"} is {"segments": {"zone": "a"}}.
void SetTopologies(Fields& fields, const std::string& name) {
  const auto at = fields.find(name);
  if (at == fields.end() || at->second.kind_case() != Value::kListValue) return;
  for (Value& topology : *at->second.mutable_list_value()->mutable_values()) {
    if (topology.kind_case() != Value::kStructValue) continue;
    Fields& members = *topology.mutable_struct_value()->mutable_fields();
    const auto segments = members.find("segments");
    if (segments != members.end() && segments->second.kind_case() == Value::kStructValue) continue;
    Value whole;
    *(*whole.mutable_struct_value()->mutable_fields())["segments"].mutable_struct_value() = topology.struct_value();
    topology = std::move(whole);
  }
}

absl::Status TakeSecrets(Fields& fields, Secrets& secrets) {
  const std::optional<Value> value = Take(fields, "secrets");
  if (!value) return absl::OkStatus();
  if (value->kind_case() != Value::kStructValue) return InvalidArgument("\"secrets\" is not an object of strings");
  for (const auto& [key, secret] : value->struct_value().fields()) {
    if (secret.kind_case() != Value::kStringValue) return InvalidArgument("the secret {} is not a string", Quote(key));
    MOORING_RETURN_IF_ERROR(secrets.Add(key + "=" + secret.string_value()));
  }
  return absl::OkStatus();
}

absl::Status CheckFlags(const v1::Volume& volume) {
  const auto& flags = volume.mount_options().flags();
  const bool blanked =
      std::any_of(flags.begin(), flags.end(), [](const std::string& flag) { return flag.ends_with("=***"); });
  if (!blanked) return absl::OkStatus();
  return InvalidArgument("a flag in \"mount_options\" is redacted (***), as status prints it: write the real value");
}

// Clears the fields that only the manager sets, and that status prints.
void ClearState(v1::Volume& volume) {
  volume.clear_state();
  volume.clear_created_here();
  volume.clear_in_use();
  volume.clear_exhausted_at_ms();
  volume.clear_exhausted_host();
  volume.clear_exhausted_words();
  volume.clear_node_expansion_owed();
  volume.clear_created_at_ms();
  volume.clear_create_revision();
  volume.clear_has_secrets();
}

}  // namespace

absl::StatusOr<v1::Volume> ParseVolume(const std::string& json, Secrets& secrets) {
  namespace util = google::protobuf::util;
  // The errors of this parser may repeat secrets, so they are dropped.
  Struct object;
  if (!util::JsonStringToMessage(json, &object).ok()) return InvalidArgument("the text is not a JSON object");
  Fields& fields = *object.mutable_fields();
  MOORING_RETURN_IF_ERROR(TakeSecrets(fields, secrets));
  MOORING_RETURN_IF_ERROR(SetKey(fields));
  MOORING_RETURN_IF_ERROR(SetSize(fields, "size", "min_bytes"));
  MOORING_RETURN_IF_ERROR(SetSize(fields, "limit", "max_bytes"));
  MOORING_RETURN_IF_ERROR(SetCapabilities(fields));
  for (const char* name : {"required_topologies", "preferred_topologies", "topologies"}) SetTopologies(fields, name);
  std::string plain;
  v1::Volume volume;
  if (!util::MessageToJsonString(object, &plain).ok()) return InvalidArgument("the text is not a JSON object");
  const auto parsed = util::JsonStringToMessage(plain, &volume);
  if (!parsed.ok()) return InvalidArgument(std::string(parsed.message()));
  MOORING_RETURN_IF_ERROR(CheckFlags(volume));
  ClearState(volume);
  return volume;
}

absl::StatusOr<v1::Volume> ReadVolumeFile(const std::string& path, Secrets& secrets) {
  const std::string context = path == "-" ? "the volume on the standard input" : "the volume file " + Quote(path);
  const absl::StatusOr<std::string> text = ReadFile(path);
  if (!text.ok()) return Annotate(WithCode(absl::StatusCode::kInvalidArgument, text.status()), context);
  absl::StatusOr<v1::Volume> volume = ParseVolume(*text, secrets);
  if (!volume.ok()) return Annotate(volume.status(), context);
  return volume;
}

}  // namespace mooring::cli::manager_area
