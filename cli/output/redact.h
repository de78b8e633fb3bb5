// Requests as they may be shown.
#ifndef MOORING_CLI_OUTPUT_REDACT_H_
#define MOORING_CLI_OUTPUT_REDACT_H_

#include <google/protobuf/message.h>

#include <memory>

namespace mooring::cli {

enum class Sensitivity {
  kPlain,
  kSecret,  // its values are not for anybody
  kFlags,   // mount flags: what stands behind a '=' may be a password
};
using Classify = Sensitivity (*)(const google::protobuf::FieldDescriptor& field);

// A copy in which "***" stands for the values of secret fields, and behind the '=' of flags.
std::unique_ptr<google::protobuf::Message> Redacted(const google::protobuf::Message& message, Classify classify);

Sensitivity ClassifyCsi(const google::protobuf::FieldDescriptor& field);  // csi_secret, and mount flags

}  // namespace mooring::cli

#endif  // MOORING_CLI_OUTPUT_REDACT_H_
