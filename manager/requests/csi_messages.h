// The calls of CSI's controller service by their names, as requests in the state have them.
#pragma once

#include <google/protobuf/message.h>

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mooring::manager {

struct CsiMessages {
  std::unique_ptr<google::protobuf::Message> request, response;
};

// Empty messages for "/csi.v1.Controller/CreateVolume". UNIMPLEMENTED: not a call of the controller service.
absl::StatusOr<CsiMessages> MessagesOf(const std::string& method);

std::string_view CallName(std::string_view method);  // "CreateVolume"

// FAILED_PRECONDITION: the message is larger than the 1 MiB that the state takes. `kind`: "request" or "answer".
absl::Status CheckSize(std::string_view kind, std::string_view call, const google::protobuf::Message& message);

}  // namespace mooring::manager
