// The limits of every gRPC server here, so that no client makes its process large.
#ifndef MOORING_RPC_SERVER_LIMITS_H_
#define MOORING_RPC_SERVER_LIMITS_H_

#include <string>

namespace grpc {
class ServerBuilder;
}

namespace mooring {

// The largest request. CSI limits each field to 128 bytes and each map to 4 KiB. The longest honest requests list the
// topologies of some thousand nodes. A larger one is RESOURCE_EXHAUSTED.
inline constexpr int kLargestRequest = 1024 * 1024;

// `most_calls` at a time, each with a thread; one more is RESOURCE_EXHAUSTED. The bytes that clients have sent and the
// server has not read, of all connections together, are bounded too: beyond that, connections without a call are
// closed, and then calls are refused.
void LimitServer(grpc::ServerBuilder& builder, const std::string& name, int most_calls);

}  // namespace mooring

#endif  // MOORING_RPC_SERVER_LIMITS_H_
