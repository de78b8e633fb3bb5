// The path of a Unix socket, from the ways in which orchestrators and people write an endpoint.
#ifndef MOORING_BASE_SOCKET_PATH_H_
#define MOORING_BASE_SOCKET_PATH_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace mooring {

// From unix:///p, unix://p (orchestrators mean /p), unix:p or a bare path. A relative path stays one.
// INVALID_ARGUMENT: empty, another scheme, longer than a socket's address may be (107 bytes).
absl::StatusOr<std::string> ParseSocketPath(std::string_view endpoint);

// The socket as gRPC wants it named, to listen or to connect: "unix:" and the path, percent-encoded, for gRPC decodes
// it.
std::string GrpcTarget(std::string_view socket_path);

}  // namespace mooring

#endif  // MOORING_BASE_SOCKET_PATH_H_
