// Where a driver listens.
#ifndef MOORING_CLI_ENDPOINT_H_
#define MOORING_CLI_ENDPOINT_H_

#include <string>
#include <string_view>

namespace mooring::cli {

// A socket as gRPC wants it named: "unix:" and the path, percent-encoded where a URI needs it.
std::string GrpcTarget(std::string_view socket_path);

}  // namespace mooring::cli

#endif  // MOORING_CLI_ENDPOINT_H_
