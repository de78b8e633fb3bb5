// Requests as they may be shown.
#ifndef MOORING_CLI_CSI_REDACT_H_
#define MOORING_CLI_CSI_REDACT_H_

#include <google/protobuf/message.h>

#include <memory>

namespace mooring::cli::csi_area {

// A copy in which the values of csi_secret fields are "***", and so is what stands behind the '=' of a mount flag.
std::unique_ptr<google::protobuf::Message> Redacted(const google::protobuf::Message& message);

}  // namespace mooring::cli::csi_area

#endif  // MOORING_CLI_CSI_REDACT_H_
