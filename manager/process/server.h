// The sockets of the manager: its API, Docker's volume plugin, and its metrics.
#pragma once

#include <chrono>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "manager/manager.h"
#include "manager/process/socket.h"
#include "metrics/listener.h"

namespace mooring::manager {

class Server {
 public:
  // Serves the socket `passed` by systemd, or else binds config.socket_path (mode 0600, or 0660 with config.group).
  // Also serves config.docker_socket if it is set, and metrics on the listener `metrics` if there is one.
  // FAILED_PRECONDITION: another process serves the socket, or the group does not exist.
  static absl::StatusOr<std::unique_ptr<Server>> Start(Manager& manager, std::optional<ListeningSocket> passed,
                                                       std::optional<metrics::Listener> metrics);
  ~Server();

  // Begins the manager's stop, ends streams, and waits for the calls that run. DEADLINE_EXCEEDED names the calls that
  // still run after `patience`.
  absl::Status Stop(std::chrono::seconds patience);

 private:
  struct Serving;
  explicit Server(std::unique_ptr<Serving> serving);
  std::unique_ptr<Serving> serving_;
};

}  // namespace mooring::manager
