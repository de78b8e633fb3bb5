// The address of --metrics-listen.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace mooring::metrics {

struct ListenAddress {
  std::string socket_path;  // path of a unix socket; empty: TCP
  std::string ip;           // "127.0.0.1", "::1"; empty: all addresses of this host
  std::uint16_t port = 0;   // 0: any free port

  bool operator==(const ListenAddress&) const = default;
};

// "127.0.0.1:9850", "[::1]:9850", ":9850", "unix:/run/mooring-metrics/plugin.sock". INVALID_ARGUMENT names
// the valid forms.
absl::StatusOr<ListenAddress> ParseListenAddress(std::string_view text);

// Parses the value of --metrics-listen. Empty: no address. The error names the flag.
absl::StatusOr<std::optional<ListenAddress>> ParseListenFlag(std::string_view text);

// The text that ParseListenAddress reads.
std::string ToString(const ListenAddress& address);

}  // namespace mooring::metrics
