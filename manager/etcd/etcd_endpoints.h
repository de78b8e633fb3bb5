// The addresses of an etcd cluster, as in the flag --state.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace mooring::manager {

// The members in "etcd://host1:2379,[::1]:2379,unix:/run/etcd.sock", as gRPC wants them. INVALID_ARGUMENT otherwise.
absl::StatusOr<std::vector<std::string>> ParseEtcdEndpoints(const std::string& endpoints);

// Whether connections to the member stay on this host: a loopback address, "localhost" or a unix socket.
bool StaysOnHost(const std::string& member);

}  // namespace mooring::manager
