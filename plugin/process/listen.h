// The socket of --endpoint.
#ifndef MOORING_PLUGIN_PROCESS_LISTEN_H_
#define MOORING_PLUGIN_PROCESS_LISTEN_H_

#include <grpcpp/grpcpp.h>

#include <memory>

#include "absl/status/statusor.h"
#include "plugin/process/config.h"

namespace mooring {

// Serves what `builder` has on the socket, for its owner and its group alone; one that nobody serves any more makes
// way. With a mount helper this process connects to nobody from then on. An error names the directory and says who may
// not write there.
absl::StatusOr<std::unique_ptr<grpc::Server>> Listen(const Config& config, grpc::ServerBuilder& builder);

}  // namespace mooring

#endif  // MOORING_PLUGIN_PROCESS_LISTEN_H_
