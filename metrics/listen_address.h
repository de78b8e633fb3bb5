// Where a program serves its metrics: what --metrics-listen says.
#ifndef MOORING_METRICS_LISTEN_ADDRESS_H_
#define MOORING_METRICS_LISTEN_ADDRESS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace mooring::metrics {

struct ListenAddress {
  std::string socket_path;  // of a unix socket; empty: TCP
  std::string ip;           // "127.0.0.1", "::1"; empty: all addresses of this host
  std::uint16_t port = 0;   // 0: any that is free

  bool operator==(const ListenAddress&) const = default;
};

// "127.0.0.1:9850", "[::1]:9850", ":9850", "unix:/run/mooring-metrics/plugin.sock". INVALID_ARGUMENT says what it may
// be.
absl::StatusOr<ListenAddress> ParseListenAddress(std::string_view text);

// Of a flag --metrics-listen: empty is none, and the error names it.
absl::StatusOr<std::optional<ListenAddress>> ParseListenFlag(std::string_view text);

// As it is written: what was parsed gives it again.
std::string ToString(const ListenAddress& address);

}  // namespace mooring::metrics

#endif  // MOORING_METRICS_LISTEN_ADDRESS_H_
