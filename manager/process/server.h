// The sockets of the manager: its API, Docker's volume plugin, and its metrics.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file/unique_fd.h"
#include "manager/manager.h"
#include "metrics/listener.h"

namespace mooring::manager {

// The socket of the API: bound by the manager, or passed by systemd.

// A socket that listens. The destructor removes its file if the manager bound it.
class ListeningSocket {
 public:
  // Binds `path` for root (mode 0600), or for root and `group` (0660). Nobody else can connect at any moment.
  // FAILED_PRECONDITION: another process serves it, or the group does not exist.
  static absl::StatusOr<ListeningSocket> Bind(const std::string& path, const std::string& group);

  // The socket that systemd passes, sd_listen_fds(3); nullopt if it passes none. Its unit sets path and mode. To be
  // called before the first thread starts, because it changes the environment.
  static absl::StatusOr<std::optional<ListeningSocket>> Inherit();

  ListeningSocket(ListeningSocket&&) = default;
  ListeningSocket& operator=(ListeningSocket&&) = delete;
  ~ListeningSocket();

  int fd() const { return fd_.get(); }

 private:
  ListeningSocket(UniqueFd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

  UniqueFd fd_;
  std::string path_;  // empty: bound by systemd
};

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
