// What the manager was started with: flags, each also an environment variable (MOORING_MANAGER_…).
#ifndef MOORING_MANAGER_CONFIG_H_
#define MOORING_MANAGER_CONFIG_H_

#include <chrono>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "metrics/listen_address.h"

namespace mooring::manager {

struct Config {
  std::string socket_path = "/run/mooring/manager.sock";
  std::string group;  // owns the socket (0660); empty: root alone (0600)
  std::string state_dir = "/var/lib/mooring-manager";
  std::string root = "/var/lib/mooring-manager/mounts";  // of staging and target paths; made a shared mount
  std::string runtime_dir = "/run/mooring/plugins";      // sockets of the plugins it runs
  std::string host;           // default: what the state directory records, else the host's name
  std::string docker_socket;  // of the volume plugin; empty: not served. /run/docker/plugins/mooring.sock
  std::string docker_plugin;  // the CSI plugin of volumes that Docker creates; empty: the only one there is
  std::string engine = "/run/docker.sock";  // API of Docker or Podman, for plugins that are containers
  std::optional<metrics::ListenAddress> metrics_listen = std::nullopt;  // none: there are no metrics
  std::string log_level = "info";
  std::string log_format = "text";
  std::chrono::seconds stop_grace{2};     // for calls to plugins that are under way at the stop
  std::chrono::seconds stop_timeout{30};  // for all that is under way then
  bool print_version = false;
};

// INVALID_ARGUMENT says which flag and what it may be. CANCELLED: help was asked for, it is the message.
absl::StatusOr<Config> ParseConfig(int argc, const char* const* argv);

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_CONFIG_H_
