// Converts between absl::Status and grpc::Status. Their codes have the same numbers.
#ifndef MOORING_RPC_STATUS_H_
#define MOORING_RPC_STATUS_H_

#include <grpcpp/support/status.h>

#include "absl/status/status.h"

namespace mooring {

grpc::Status ToGrpc(const absl::Status& status);
absl::Status FromGrpc(const grpc::Status& status);

}  // namespace mooring

#endif  // MOORING_RPC_STATUS_H_
