// The socket of --endpoint.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>

#include "absl/status/statusor.h"
#include "plugin/config/config.h"

namespace mooring {

// Makes way for the socket before this process becomes the user of --user: deletes a socket that no process serves any
// more. An empty directory of root's becomes the user's if the user may not write in it: orchestrators such as Nomad
// make one for each start. The setgid bit then gives the socket the directory's group, and root's group may write
// there. FAILED_PRECONDITION: the socket is served, or the directory is root's and holds other entries.
absl::Status PrepareSocketDirectory(const Config& config);

// Serves the services of `builder` on the socket, for its owner and its group alone. It replaces a socket that no
// process serves any more. With a mount helper this process makes no connections from then on. An error names the
// directory and the user who may not write there.
absl::StatusOr<std::unique_ptr<grpc::Server>> Listen(const Config& config, grpc::ServerBuilder& builder);

}  // namespace mooring
