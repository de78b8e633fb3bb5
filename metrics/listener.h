// The socket that metrics are served on. Made before the program gives up what it needs for that; served afterwards.
#ifndef MOORING_METRICS_LISTENER_H_
#define MOORING_METRICS_LISTENER_H_

#include <optional>

#include "absl/status/statusor.h"
#include "base/file/unique_fd.h"
#include "metrics/listen_address.h"

namespace mooring::metrics {

struct Listener {
  UniqueFd socket;
  ListenAddress address;  // with the port that it has got

  // Bound, and listening. A unix socket is made for everybody (0666: who may come to it, its directory says; nothing in
  // the metrics is secret), in the place of one that nobody serves any more. The error names --metrics-listen.
  // Changes the umask meanwhile: for a program with one thread.
  static absl::StatusOr<Listener> Bind(const ListenAddress& address);

  // The same, where there is an address.
  static absl::StatusOr<std::optional<Listener>> Bind(const std::optional<ListenAddress>& address);
};

}  // namespace mooring::metrics

#endif  // MOORING_METRICS_LISTENER_H_
