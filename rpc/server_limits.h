// The limits of every gRPC server, so that no client can exhaust its memory or threads.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace grpc {
class ServerBuilder;
}

namespace mooring {

// The largest request. CSI limits each field to 128 bytes and each map to 4 KiB. The largest valid requests list the
// topologies of some thousand nodes. A larger request is RESOURCE_EXHAUSTED.
inline constexpr int kLargestRequest = 1024 * 1024;

// Allows `most_calls` calls at a time, each with a thread. A further call is RESOURCE_EXHAUSTED. Also limits the bytes
// that clients have sent and the server has not read, over all connections. Beyond that limit the server closes
// connections without a call, and then refuses calls.
void LimitServer(grpc::ServerBuilder& builder, const std::string& name, int most_calls);

// RESOURCE_EXHAUSTED: the process cannot start the threads, or open the files, of a server or client. Call it before
// gRPC starts them: it would abort, or hang for ever.
absl::Status CheckThreadsForGrpc();

}  // namespace mooring
