// The sockets of the manager: its API, Docker's volume plugin, and its metrics.
#ifndef MOORING_MANAGER_PROCESS_SERVER_H_
#define MOORING_MANAGER_PROCESS_SERVER_H_

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
  // Serves `passed`, systemd's socket, if there is one, else binds config.socket_path (0600, or 0660 with the group);
  // and config.docker_socket, if it is set. FAILED_PRECONDITION: somebody serves it already, or there is no such group.
  // `metrics`: where they are served, if anywhere.
  static absl::StatusOr<std::unique_ptr<Server>> Start(Manager& manager, std::optional<ListeningSocket> passed,
                                                       std::optional<metrics::Listener> metrics);
  ~Server();

  // Begins the manager's stop, ends streams, and waits for the calls under way. DEADLINE_EXCEEDED names those that are
  // under way still.
  absl::Status Stop(std::chrono::seconds patience);

 private:
  struct Serving;
  explicit Server(std::unique_ptr<Serving> serving);
  std::unique_ptr<Serving> serving_;
};

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_PROCESS_SERVER_H_
