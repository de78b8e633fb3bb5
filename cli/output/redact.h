// Requests without their secrets, for --verbose.
#pragma once

#include <google/protobuf/message.h>

#include <memory>

namespace mooring::cli {

enum class Sensitivity {
  kPlain,
  kSecret,  // the values are never shown
  kFlags,   // mount flags: the text after a '=' may be a password
};
using Classify = Sensitivity (*)(const google::protobuf::FieldDescriptor& field);

// A copy with "***" for the values of secret fields, and after the '=' of mount flags.
std::unique_ptr<google::protobuf::Message> Redacted(const google::protobuf::Message& message, Classify classify);

// For CSI messages: fields with the option csi_secret, and mount flags.
Sensitivity ClassifyCsi(const google::protobuf::FieldDescriptor& field);

}  // namespace mooring::cli
