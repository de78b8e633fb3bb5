#include "rpc/redact.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

#include "base/text/quote.h"
#include "csi.pb.h"

namespace mooring {
namespace {

using google::protobuf::FieldDescriptor;
using ProtoMessage = google::protobuf::Message;
using google::protobuf::Reflection;

bool HasMountFlags(const FieldDescriptor& field) { return field.name() == "flags" || field.name() == "mount_flags"; }

bool IsSecret(const FieldDescriptor& field) { return field.options().GetExtension(csi::v1::csi_secret); }

bool IsSensitive(const FieldDescriptor& field) {
  if (IsSecret(field)) return true;
  if (field.is_map()) return field.name() == "secrets" || field.name() == "environment";
  return HasMountFlags(field) && field.is_repeated();
}

std::vector<const FieldDescriptor*> FieldsIn(const ProtoMessage& message) {
  std::vector<const FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  return fields;
}

bool HasMessages(const FieldDescriptor& field) {
  return field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE && !field.is_map();
}

void ClearSensitive(ProtoMessage& message) {
  const Reflection& reflection = *message.GetReflection();
  for (const FieldDescriptor* field : FieldsIn(message)) {
    if (IsSensitive(*field)) {
      reflection.ClearField(&message, field);
    } else if (HasMessages(*field) && field->is_repeated()) {
      for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
        ClearSensitive(*reflection.MutableRepeatedMessage(&message, field, i));
      }
    } else if (HasMessages(*field)) {
      ClearSensitive(*reflection.MutableMessage(&message, field));
    }
  }
}

// "noatime,password=x": the value of each flag, and for a log also each flag and its name.
void CollectFlags(const std::string& element, Reader reader, std::vector<std::string>& values) {
  for (std::size_t start = 0; start <= element.size();) {
    const std::size_t end = std::min(element.find(',', start), element.size());
    const std::string flag = element.substr(start, end - start);
    const std::size_t equals = flag.find('=');
    if (reader == Reader::kLog) values.insert(values.end(), {flag, flag.substr(0, equals)});
    if (equals != std::string::npos) values.push_back(flag.substr(equals + 1));
    start = end + 1;
  }
}

void CollectField(const ProtoMessage& message, const FieldDescriptor& field, Reader reader,
                  std::vector<std::string>& values) {
  const Reflection& reflection = *message.GetReflection();
  if (!field.is_repeated()) return values.push_back(reflection.GetString(message, &field));
  for (int i = 0; i < reflection.FieldSize(message, &field); ++i) {
    if (field.is_map()) {
      const ProtoMessage& entry = reflection.GetRepeatedMessage(message, &field, i);
      values.push_back(entry.GetReflection()->GetString(entry, entry.GetDescriptor()->map_value()));
    } else {
      CollectFlags(reflection.GetRepeatedString(message, &field, i), reader, values);
    }
  }
}

void CollectSensitive(const ProtoMessage& message, Reader reader, std::vector<std::string>& values) {
  const Reflection& reflection = *message.GetReflection();
  for (const FieldDescriptor* field : FieldsIn(message)) {
    if (IsSensitive(*field)) {
      CollectField(message, *field, reader, values);
    } else if (HasMessages(*field) && field->is_repeated()) {
      for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
        CollectSensitive(reflection.GetRepeatedMessage(message, field, i), reader, values);
      }
    } else if (HasMessages(*field)) {
      CollectSensitive(reflection.GetMessage(message, field), reader, values);
    }
  }
}

void Hide(const std::string& value, std::string& text) {
  constexpr std::string_view kHidden = "***";
  for (std::size_t at = text.find(value); at != std::string::npos; at = text.find(value, at + kHidden.size())) {
    text.replace(at, value.size(), kHidden);
  }
}

}  // namespace

std::string Redacted(const ProtoMessage& request) {
  const std::unique_ptr<ProtoMessage> copy(request.New());
  copy->CopyFrom(request);
  ClearSensitive(*copy);
  return copy->ShortDebugString();
}

std::string WithoutSecretsOf(const ProtoMessage& request, std::string text, Reader reader) {
  constexpr std::size_t kShortestHidden = 4;
  std::vector<std::string> values;
  CollectSensitive(request, reader, values);
  std::sort(values.begin(), values.end(),
            [](const std::string& a, const std::string& b) { return a.size() > b.size(); });
  for (const std::string& value : values) {
    if (!value.empty()) Hide(value.size() < kShortestHidden ? Quote(value) : value, text);
  }
  return text;
}

bool HasSecrets(const ProtoMessage& request) {
  const Reflection& reflection = *request.GetReflection();
  for (const FieldDescriptor* field : FieldsIn(request)) {
    if (IsSecret(*field) || (HasMountFlags(*field) && field->is_repeated())) return true;
    if (!HasMessages(*field)) continue;
    if (!field->is_repeated()) {
      if (HasSecrets(reflection.GetMessage(request, field))) return true;
      continue;
    }
    for (int i = 0; i < reflection.FieldSize(request, field); ++i) {
      if (HasSecrets(reflection.GetRepeatedMessage(request, field, i))) return true;
    }
  }
  return false;
}

}  // namespace mooring
