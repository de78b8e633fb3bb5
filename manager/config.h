// The flags of mooring-manager. Each is also an environment variable (MOORING_MANAGER_…).
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "manager/etcd/etcd_state.h"
#include "metrics/listen_address.h"

namespace mooring::manager {

struct Config {
  std::string socket_path = "/run/mooring/manager.sock";
  std::string group;  // group of the socket (mode 0660); empty: only root (mode 0600)
  std::string state_dir = "/var/lib/mooring-manager";
  std::optional<EtcdSettings> etcd = std::nullopt;   // the state shared with other hosts; nullopt: SQLite in state_dir
  std::chrono::seconds recover_after{300};           // how long a host is unreachable before others take its volumes
  std::string root;                                  // staging and target paths; made a shared mount
  std::string runtime_dir = "/run/mooring/plugins";  // sockets of plugins that the manager runs
  std::string host;                                  // empty: the name in the state directory, else the host name
  std::string docker_socket;                         // for the Docker volume plugin; empty: not served
  std::string docker_plugin;                // CSI plugin of volumes that Docker creates; empty: the only plugin
  std::string engine = "/run/docker.sock";  // API of Docker or Podman, for plugins in containers
  std::optional<metrics::ListenAddress> metrics_listen = std::nullopt;  // nullopt: no metrics
  std::string log_level = "info";
  std::string log_format = "text";
  std::chrono::seconds stop_grace{2};     // for running calls to plugins at a stop
  std::chrono::seconds stop_timeout{30};  // for the whole stop
};

// INVALID_ARGUMENT names the flag and its valid values. CANCELLED: the message is the text of --help or --version.
absl::StatusOr<Config> ParseConfig(int argc, const char* const* argv);

// The flags of `mooring-manager migrate`.
struct MigrateConfig {
  Config manager;  // with etcd; only the state, the name of the host and etcd are set
  bool to_shared = true;
  bool json = false;  // print the result as JSON
};

// As ParseConfig. argv[0] is the name of the command.
absl::StatusOr<MigrateConfig> ParseMigrateConfig(int argc, const char* const* argv);

}  // namespace mooring::manager
