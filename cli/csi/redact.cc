#include "cli/csi/redact.h"

#include <string>
#include <vector>

#include "csi.pb.h"

namespace mooring::cli::csi_area {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

constexpr char kBlank[] = "***";

void RedactIn(Message& message);

// Every csi_secret field of CSI is a map of strings: the keys stay. Anything else that bears the mark goes as a whole.
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

void RedactBelow(Message& message, const FieldDescriptor& field) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  if (field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE || field.is_map()) return;
  if (!field.is_repeated()) return RedactIn(*reflection.MutableMessage(&message, &field));
  for (int i = 0; i < reflection.FieldSize(message, &field); ++i) {
    RedactIn(*reflection.MutableRepeatedMessage(&message, &field, i));
  }
}

void BlankMountFlags(csi::v1::VolumeCapability::MountVolume& mount) {
  for (std::string& flag : *mount.mutable_mount_flags()) {
    const std::size_t equals = flag.find('=');
    if (equals != std::string::npos) flag.replace(equals + 1, std::string::npos, kBlank);
  }
}

void RedactIn(Message& message) {
  if (auto* mount = dynamic_cast<csi::v1::VolumeCapability::MountVolume*>(&message)) BlankMountFlags(*mount);
  std::vector<const FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->options().GetExtension(csi::v1::csi_secret)) {
      BlankSecrets(message, *field);
    } else {
      RedactBelow(message, *field);
    }
  }
}

}  // namespace

std::unique_ptr<Message> Redacted(const Message& message) {
  std::unique_ptr<Message> copy(message.New());
  copy->CopyFrom(message);
  RedactIn(*copy);
  return copy;
}

}  // namespace mooring::cli::csi_area
