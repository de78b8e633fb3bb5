#include "manager/config.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <string_view>

#include "base/file/path.h"
#include "base/server_start.h"
#include "base/status.h"
#include "manager/state/keys.h"

namespace mooring::manager {
namespace {

// The values as typed.
struct Flags {
  std::string socket = Config().socket_path;
  std::string group;
  std::string state_dir = Config().state_dir;
  std::string root;
  std::string runtime_dir = Config().runtime_dir;
  std::string host;
  std::string docker_socket, docker_plugin;
  std::string engine = Config().engine;
  std::string metrics_listen;
  std::string log_level = Config().log_level;
  std::string log_format = Config().log_format;
  std::string stop_grace = fmt::format("{}", Config().stop_grace.count());
  std::string stop_timeout = fmt::format("{}", Config().stop_timeout.count());
};

absl::StatusOr<std::string> CheckSocketOrNone(std::string_view flag, const std::string& endpoint) {
  if (endpoint.empty()) return endpoint;
  return CheckSocket(flag, endpoint);
}

absl::Status CheckNameOrNone(std::string_view flag, const std::string& name) {
  return name.empty() ? absl::OkStatus() : CheckName(flag, name);
}

absl::StatusOr<Config> Check(const Flags& flags) {
  Config config;
  MOORING_ASSIGN_OR_RETURN(config.socket_path, CheckSocket("--socket", flags.socket));
  config.group = flags.group;
  MOORING_ASSIGN_OR_RETURN(config.state_dir, NormalisePath("--state-dir", flags.state_dir));
  const std::string root = flags.root.empty() ? config.state_dir + "/mounts" : flags.root;
  MOORING_ASSIGN_OR_RETURN(config.root, NormalisePath("--root", root));
  MOORING_ASSIGN_OR_RETURN(config.runtime_dir, NormalisePath("--runtime-dir", flags.runtime_dir));
  MOORING_RETURN_IF_ERROR(CheckNameOrNone("--host", flags.host));
  config.host = flags.host;
  MOORING_ASSIGN_OR_RETURN(config.docker_socket, CheckSocketOrNone("--docker-socket", flags.docker_socket));
  MOORING_RETURN_IF_ERROR(CheckNameOrNone("--docker-plugin", flags.docker_plugin));
  config.docker_plugin = flags.docker_plugin;
  MOORING_ASSIGN_OR_RETURN(config.engine, CheckSocket("--engine", flags.engine));
  MOORING_ASSIGN_OR_RETURN(config.stop_grace, ParseSeconds("--stop-grace", flags.stop_grace));
  MOORING_ASSIGN_OR_RETURN(config.stop_timeout, ParseSeconds("--stop-timeout", flags.stop_timeout));
  MOORING_ASSIGN_OR_RETURN(config.metrics_listen, metrics::ParseListenFlag(flags.metrics_listen));
  MOORING_ASSIGN_OR_RETURN(config.log_level,
                           CheckChoice("--log-level", flags.log_level, {"debug", "info", "warning", "error"}));
  MOORING_ASSIGN_OR_RETURN(config.log_format, CheckChoice("--log-format", flags.log_format, {"text", "json"}));
  return config;
}

void AddFlags(CLI::App& app, Flags& flags) {
  const auto add = [&app](const char* name, std::string& value, const char* environment, const char* help) {
    AddTextFlag(app, name, value, environment, help);
  };
  add("--socket", flags.socket, "MOORING_MANAGER_SOCKET", "Socket of the API; a socket passed by systemd replaces it");
  add("--group", flags.group, "MOORING_MANAGER_GROUP",
      "Group that may use the socket, and so is as good as root (default: only root)");
  add("--state-dir", flags.state_dir, "MOORING_MANAGER_STATE_DIR", "Directory of the manager's state");
  add("--root", flags.root, "MOORING_MANAGER_ROOT",
      "Directory for staging and target paths of volumes (default: 'mounts' in the state directory)");
  add("--runtime-dir", flags.runtime_dir, "MOORING_MANAGER_RUNTIME_DIR",
      "Directory for the sockets of plugins that the manager runs");
  add("--host", flags.host, "MOORING_MANAGER_HOST",
      "Name of this host in the state (default: the name recorded there, else the host name)");
  add("--docker-socket", flags.docker_socket, "MOORING_MANAGER_DOCKER_SOCKET",
      "Socket of the volume plugin for Docker and Podman, as /run/docker/plugins/mooring.sock (default: none)");
  add("--docker-plugin", flags.docker_plugin, "MOORING_MANAGER_DOCKER_PLUGIN",
      "CSI plugin of volumes that Docker and Podman create (default: the only plugin)");
  add("--engine", flags.engine, "MOORING_MANAGER_ENGINE",
      "API socket of Docker or Podman, for plugins that run as containers");
  add("--stop-grace", flags.stop_grace, "MOORING_MANAGER_STOP_GRACE",
      "Seconds that running calls to plugins may take after SIGTERM; the next start continues interrupted work");
  add("--stop-timeout", flags.stop_timeout, "MOORING_MANAGER_STOP_TIMEOUT",
      "Seconds after SIGTERM until the manager exits even if calls still run");
  add("--metrics-listen", flags.metrics_listen, "MOORING_MANAGER_METRICS_LISTEN",
      "Address for metrics, as 127.0.0.1:9851, [::1]:9851, :9851 (all addresses) or unix:/path/metrics.sock "
      "(default: no metrics)");
  add("--log-level", flags.log_level, "MOORING_MANAGER_LOG_LEVEL", "Log level: debug, info, warning or error");
  add("--log-format", flags.log_format, "MOORING_MANAGER_LOG_FORMAT", "Log format: text or json");
}

}  // namespace

absl::StatusOr<Config> ParseConfig(int argc, const char* const* argv) {
  CLI::App app("mooring-manager: manages volumes of any CSI plugin on this host", "mooring-manager");
  Flags flags;
  AddFlags(app, flags);
  MOORING_RETURN_IF_ERROR(ParseFlags(app, argc, argv));
  return Check(flags);
}

}  // namespace mooring::manager
