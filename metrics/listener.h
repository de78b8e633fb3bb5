// The socket that metrics are served on. The program binds it before it gives up its privileges, and serves it
// afterwards.
#pragma once

#include <optional>

#include "absl/status/statusor.h"
#include "base/file/unique_fd.h"
#include "metrics/listen_address.h"

namespace mooring::metrics {

struct Listener {
  UniqueFd socket;
  ListenAddress address;  // with the port that was bound

  // Binds and listens. A unix socket has mode 0666, because its directory decides who may reach it, and metrics are no
  // secrets. It replaces a socket that no process serves any more. The error names --metrics-listen. The process must
  // have one thread, because the umask changes for a moment.
  static absl::StatusOr<Listener> Bind(const ListenAddress& address);

  // The same for an optional address.
  static absl::StatusOr<std::optional<Listener>> Bind(const std::optional<ListenAddress>& address);
};

}  // namespace mooring::metrics
