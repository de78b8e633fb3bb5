// Where a driver listens.
#ifndef MOORING_CLI_ENDPOINT_H_
#define MOORING_CLI_ENDPOINT_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace mooring::cli {

// The socket's path from unix:///p, unix://p (orchestrators mean /p), unix:p or a bare path. A relative path stays one.
// INVALID_ARGUMENT: empty, another scheme, longer than a socket's address may be.
absl::StatusOr<std::string> ParseEndpoint(std::string_view endpoint);

// The same socket as gRPC wants it named: "unix:" and the path, percent-encoded where a URI needs it.
std::string GrpcTarget(std::string_view socket_path);

}  // namespace mooring::cli

#endif  // MOORING_CLI_ENDPOINT_H_
