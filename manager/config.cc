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

// Flags that are not stored as text.
struct TypedFlags {
  std::string metrics_listen;
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

// Checks the text in `config`, and puts it into its final form.
absl::Status Check(const TypedFlags& flags, Config& config) {
  MOORING_ASSIGN_OR_RETURN(config.socket_path, CheckSocket("--socket", config.socket_path));
  MOORING_ASSIGN_OR_RETURN(config.state_dir, NormalisePath("--state-dir", config.state_dir));
  if (config.root.empty()) config.root = config.state_dir + "/mounts";
  MOORING_ASSIGN_OR_RETURN(config.root, NormalisePath("--root", config.root));
  MOORING_ASSIGN_OR_RETURN(config.runtime_dir, NormalisePath("--runtime-dir", config.runtime_dir));
  MOORING_RETURN_IF_ERROR(CheckNameOrNone("--host", config.host));
  MOORING_ASSIGN_OR_RETURN(config.docker_socket, CheckSocketOrNone("--docker-socket", config.docker_socket));
  MOORING_RETURN_IF_ERROR(CheckNameOrNone("--docker-plugin", config.docker_plugin));
  MOORING_ASSIGN_OR_RETURN(config.engine, CheckSocket("--engine", config.engine));
  MOORING_ASSIGN_OR_RETURN(config.stop_grace, ParseSeconds("--stop-grace", flags.stop_grace));
  MOORING_ASSIGN_OR_RETURN(config.stop_timeout, ParseSeconds("--stop-timeout", flags.stop_timeout));
  MOORING_ASSIGN_OR_RETURN(config.metrics_listen, metrics::ParseListenFlag(flags.metrics_listen));
  MOORING_RETURN_IF_ERROR(CheckChoice("--log-level", config.log_level, {"debug", "info", "warning", "error"}).status());
  return CheckChoice("--log-format", config.log_format, {"text", "json"}).status();
}

void AddFlags(CLI::App& app, TypedFlags& flags, Config& config) {
  const auto add = [&app](const char* name, std::string& value, const char* environment, const char* help) {
    AddTextFlag(app, name, value, environment, help);
  };
  add("--socket", config.socket_path, "MOORING_MANAGER_SOCKET",
      "Socket of the API; a socket passed by systemd replaces it");
  add("--group", config.group, "MOORING_MANAGER_GROUP",
      "Group that may use the socket, and so is as good as root (default: only root)");
  add("--state-dir", config.state_dir, "MOORING_MANAGER_STATE_DIR", "Directory of the manager's state");
  add("--root", config.root, "MOORING_MANAGER_ROOT",
      "Directory for staging and target paths of volumes (default: 'mounts' in the state directory)");
  add("--runtime-dir", config.runtime_dir, "MOORING_MANAGER_RUNTIME_DIR",
      "Directory for the sockets of plugins that the manager runs");
  add("--host", config.host, "MOORING_MANAGER_HOST",
      "Name of this host in the state (default: the name recorded there, else the host name)");
  add("--docker-socket", config.docker_socket, "MOORING_MANAGER_DOCKER_SOCKET",
      "Socket of the volume plugin for Docker and Podman, as /run/docker/plugins/mooring.sock (default: none)");
  add("--docker-plugin", config.docker_plugin, "MOORING_MANAGER_DOCKER_PLUGIN",
      "CSI plugin of volumes that Docker and Podman create (default: the only plugin)");
  add("--engine", config.engine, "MOORING_MANAGER_ENGINE",
      "API socket of Docker or Podman, for plugins that run as containers");
  add("--stop-grace", flags.stop_grace, "MOORING_MANAGER_STOP_GRACE",
      "Seconds that running calls to plugins may take after SIGTERM; the next start continues interrupted work");
  add("--stop-timeout", flags.stop_timeout, "MOORING_MANAGER_STOP_TIMEOUT",
      "Seconds after SIGTERM until the manager exits even if calls still run");
  add("--metrics-listen", flags.metrics_listen, "MOORING_MANAGER_METRICS_LISTEN",
      "Address for metrics, as 127.0.0.1:9851, [::1]:9851, :9851 (all addresses) or unix:/path/metrics.sock "
      "(default: no metrics)");
  add("--log-level", config.log_level, "MOORING_MANAGER_LOG_LEVEL", "Log level: debug, info, warning or error");
  add("--log-format", config.log_format, "MOORING_MANAGER_LOG_FORMAT", "Log format: text or json");
}

}  // namespace

absl::StatusOr<Config> ParseConfig(int argc, const char* const* argv) {
  CLI::App app("mooring-manager: manages volumes of any CSI plugin on this host", "mooring-manager");
  Config config;
  TypedFlags flags;
  AddFlags(app, flags, config);
  MOORING_RETURN_IF_ERROR(ParseFlags(app, argc, argv));
  MOORING_RETURN_IF_ERROR(Check(flags, config));
  return config;
}

}  // namespace mooring::manager
