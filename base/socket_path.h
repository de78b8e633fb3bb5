// The path of a Unix socket, from the ways in which orchestrators and people write an endpoint.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace mooring {

// Parses unix:///p, unix://p (orchestrators mean /p), unix:p or a bare path. A relative path stays relative.
// INVALID_ARGUMENT: empty, another scheme, or longer than a socket address can be (107 bytes).
absl::StatusOr<std::string> ParseSocketPath(std::string_view endpoint);

// The socket as a gRPC address, to listen or to connect: "unix:" and the percent-encoded path, which gRPC decodes.
std::string GrpcTarget(std::string_view socket_path);

}  // namespace mooring
