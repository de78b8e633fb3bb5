#include "cli/output/redact.h"

#include <string>
#include <vector>

#include "csi.pb.h"

namespace mooring::cli {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

constexpr char kBlank[] = "***";

void RedactIn(Message& message, Classify classify);

// A map of strings keeps its keys. Any other field is cleared.
void BlankSecrets(Message& message, const FieldDescriptor& field) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  if (!field.is_map()) {
    reflection.ClearField(&message, &field);
    return;
  }
  for (int i = 0; i < reflection.FieldSize(message, &field); ++i) {
    Message& entry = *reflection.MutableRepeatedMessage(&message, &field, i);
    entry.GetReflection()->SetString(&entry, entry.GetDescriptor()->map_value(), kBlank);
  }
}

void RedactBelow(Message& message, const FieldDescriptor& field, Classify classify) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  if (field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE || field.is_map()) return;
  if (!field.is_repeated()) return RedactIn(*reflection.MutableMessage(&message, &field), classify);
  for (int i = 0; i < reflection.FieldSize(message, &field); ++i) {
    RedactIn(*reflection.MutableRepeatedMessage(&message, &field, i), classify);
  }
}

void BlankFlags(Message& message, const FieldDescriptor& field) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  for (int i = 0; i < reflection.FieldSize(message, &field); ++i) {
    const std::string flag = reflection.GetRepeatedString(message, &field, i);
    const std::size_t equals = flag.find('=');
    if (equals == std::string::npos) continue;
    reflection.SetRepeatedString(&message, &field, i, flag.substr(0, equals + 1) + kBlank);
  }
}

void RedactIn(Message& message, Classify classify) {
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

}  // namespace

std::unique_ptr<Message> Redacted(const Message& message, Classify classify) {
  std::unique_ptr<Message> copy(message.New());
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

}  // namespace mooring::cli
