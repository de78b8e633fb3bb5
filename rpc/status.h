// Converts between absl::Status and grpc::Status. Their codes have the same numbers.
#pragma once

#include <grpcpp/support/status.h>

#include "absl/status/status.h"

namespace mooring {

grpc::Status ToGrpc(const absl::Status& status);
absl::Status FromGrpc(const grpc::Status& status);

}  // namespace mooring
