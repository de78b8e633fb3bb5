#include "rpc/status.h"

#include <string>

#include "base/status.h"

namespace mooring {

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return {static_cast<grpc::StatusCode>(status.code()), Message(status)};
}

absl::Status FromGrpc(const grpc::Status& status) {
  const std::string message = status.error_message();
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), absl::string_view(message));
}

}  // namespace mooring
