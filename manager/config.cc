#include "manager/config.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <string_view>
#include <vector>

#include "base/file/path.h"
#include "base/server_start.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "manager/etcd/etcd_client.h"
#include "manager/state/keys.h"

namespace mooring::manager {
namespace {

// Flags that are not stored as text.
struct TypedFlags {
  std::string metrics_listen;
  std::string stop_grace = fmt::format("{}", Config().stop_grace.count());
  std::string state = "sqlite";
  EtcdSettings etcd;
  bool etcd_insecure = false;
  std::string etcd_lease = fmt::format("{}", std::chrono::duration_cast<std::chrono::seconds>(etcd.lease_ttl).count());
  std::string recover_after = fmt::format("{}", Config().recover_after.count());
  std::string stop_timeout = fmt::format("{}", Config().stop_timeout.count());
};

absl::StatusOr<std::string> CheckSocketOrNone(std::string_view flag, const std::string& endpoint) {
  if (endpoint.empty()) return endpoint;
  return CheckSocket(flag, endpoint);
}

absl::Status CheckNameOrNone(std::string_view flag, const std::string& name) {
  return name.empty() ? absl::OkStatus() : CheckName(flag, name);
}

// Secrets of volumes and passwords must not cross a network in clear text.
absl::Status CheckTls(const EtcdConnection& connection, bool insecure) {
  const absl::StatusOr<std::vector<std::string>> members = ParseEtcdEndpoints(connection.endpoints);
  if (!members.ok()) return Annotate(members.status(), "--state");
  for (const std::string& member : *members) {
    if (StaysOnHost(member) || !connection.ca_file.empty() || insecure) continue;
    return InvalidArgument(
        "--state: {} is not on this host, so the connection needs TLS: give the CA of etcd with --etcd-ca, or, in a "
        "network that you trust, --etcd-insecure",
        Quote(member));
  }
  return absl::OkStatus();
}

absl::Status CheckState(const TypedFlags& flags, Config& config) {
  constexpr std::chrono::seconds kShortestLease{2};
  if (flags.state == "sqlite") return absl::OkStatus();
  EtcdSettings etcd = flags.etcd;
  if (!flags.state.starts_with("etcd://")) {
    return InvalidArgument("--state {} is neither 'sqlite' nor etcd://host1:2379,host2:2379,host3:2379",
                           Quote(flags.state));
  }
  etcd.connection.endpoints = flags.state;
  MOORING_RETURN_IF_ERROR(CheckTls(etcd.connection, flags.etcd_insecure));
  if (etcd.connection.user.empty() != etcd.connection.password_file.empty()) {
    return InvalidArgument("--etcd-user and --etcd-password-file belong together: give both, or none");
  }
  if (!etcd.prefix.starts_with('/') || !etcd.prefix.ends_with('/') || etcd.prefix == "/") {
    return InvalidArgument("--etcd-prefix {} must begin and end with '/', as /mooring/", Quote(etcd.prefix));
  }
  MOORING_ASSIGN_OR_RETURN(const std::chrono::seconds lease, ParseSeconds("--etcd-lease", flags.etcd_lease));
  if (lease < kShortestLease) return InvalidArgument("--etcd-lease must be at least {} s", kShortestLease.count());
  etcd.lease_ttl = lease;
  config.etcd = std::move(etcd);
  return absl::OkStatus();
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
  MOORING_RETURN_IF_ERROR(CheckState(flags, config));
  MOORING_ASSIGN_OR_RETURN(config.recover_after, ParseSeconds("--recover-after", flags.recover_after));
  MOORING_ASSIGN_OR_RETURN(config.metrics_listen, metrics::ParseListenFlag(flags.metrics_listen));
  if (config.docker_socket == config.socket_path) {
    return WrongFlag("--docker-socket", config.docker_socket, "that is --socket: choose another");
  }
  if (config.metrics_listen && !config.metrics_listen->socket_path.empty() &&
      (config.metrics_listen->socket_path == config.socket_path ||
       config.metrics_listen->socket_path == config.docker_socket)) {
    return WrongFlag("--metrics-listen", flags.metrics_listen, "another flag has that socket: choose another");
  }
  if (IsBelow(config.state_dir, config.root)) {
    return WrongFlag("--root", config.root, "the state directory is, or lies, there: volumes would cover it");
  }
  MOORING_RETURN_IF_ERROR(CheckChoice("--log-level", config.log_level, {"debug", "info", "warning", "error"}).status());
  return CheckChoice("--log-format", config.log_format, {"text", "json"}).status();
}

// The flags that `mooring-manager migrate` has, too.
void AddStateFlags(CLI::App& app, TypedFlags& flags, Config& config) {
  const auto add = [&app](const char* name, std::string& value, const char* environment, const char* help) {
    AddTextFlag(app, name, value, environment, help);
  };
  add("--state-dir", config.state_dir, "MOORING_MANAGER_STATE_DIR", "Directory of the manager's state");
  add("--state", flags.state, "MOORING_MANAGER_STATE",
      "State of volumes and claims: sqlite, for this host alone, or etcd://host1:2379,host2:2379,host3:2379, shared by "
      "all hosts that name it");
  add("--etcd-ca", flags.etcd.connection.ca_file, "MOORING_MANAGER_ETCD_CA",
      "File with the CA of etcd's certificates; required unless all its addresses are on this host");
  add("--etcd-cert", flags.etcd.connection.certificate_file, "MOORING_MANAGER_ETCD_CERT",
      "File with this host's certificate for etcd");
  add("--etcd-key", flags.etcd.connection.key_file, "MOORING_MANAGER_ETCD_KEY", "File with the key of --etcd-cert");
  add("--etcd-user", flags.etcd.connection.user, "MOORING_MANAGER_ETCD_USER", "User of etcd (default: none)");
  add("--etcd-password-file", flags.etcd.connection.password_file, "MOORING_MANAGER_ETCD_PASSWORD_FILE",
      "File with the password of --etcd-user");
  add("--etcd-prefix", flags.etcd.prefix, "MOORING_MANAGER_ETCD_PREFIX",
      "Prefix of all keys in etcd; hosts with the same prefix share one state");
  add("--etcd-secrets-key", flags.etcd.secrets_key_file, "MOORING_MANAGER_ETCD_SECRETS_KEY",
      "File with the key that encrypts secrets in etcd, the same on all hosts (default: secrets are refused)");
  add("--etcd-lease", flags.etcd_lease, "MOORING_MANAGER_ETCD_LEASE",
      "Seconds after which a host that does not renew its lease counts as unreachable");
  add("--recover-after", flags.recover_after, "MOORING_MANAGER_RECOVER_AFTER",
      "Seconds that a host may be unreachable before the controllers of its volumes are asked to detach them");
  app.add_flag("--etcd-insecure", flags.etcd_insecure, "Allow connections to etcd over a network without TLS")
      ->envname("MOORING_MANAGER_ETCD_INSECURE");
  add("--host", config.host, "MOORING_MANAGER_HOST",
      "Name of this host in the state (default: the name recorded there, else the host name)");
}

void AddFlags(CLI::App& app, TypedFlags& flags, Config& config) {
  app.footer("mooring-manager migrate moves volumes and claims between the kinds of state; see its --help.");
  const auto add = [&app](const char* name, std::string& value, const char* environment, const char* help) {
    AddTextFlag(app, name, value, environment, help);
  };
  add("--socket", config.socket_path, "MOORING_MANAGER_SOCKET",
      "Socket of the API; a socket passed by systemd replaces it");
  add("--group", config.group, "MOORING_MANAGER_GROUP",
      "Group that may use the socket, and so is as good as root (default: only root)");
  AddStateFlags(app, flags, config);
  add("--root", config.root, "MOORING_MANAGER_ROOT",
      "Directory for staging and target paths of volumes (default: 'mounts' in the state directory)");
  add("--runtime-dir", config.runtime_dir, "MOORING_MANAGER_RUNTIME_DIR",
      "Directory for the sockets of plugins that the manager runs");
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

absl::StatusOr<MigrateConfig> ParseMigrateConfig(int argc, const char* const* argv) {
  constexpr char kSqlite[] = "sqlite";
  CLI::App app(
      "mooring-manager migrate: moves the volumes and claims of this host from SQLite to etcd, or back, while its "
      "manager is stopped",
      "mooring-manager migrate");
  MigrateConfig config;
  TypedFlags flags;
  std::string to;
  app.add_option("--to", to, "New place: etcd://host1:2379,host2:2379,host3:2379, or sqlite, from the etcd of --state")
      ->required();
  app.add_flag("--json", config.json, "Print the result as JSON");
  AddStateFlags(app, flags, config.manager);
  MOORING_RETURN_IF_ERROR(ParseFlags(app, argc, argv));
  config.to_shared = to != kSqlite;
  if (config.to_shared) flags.state = to;
  if (flags.state == kSqlite)
    return InvalidArgument("--to sqlite needs the etcd to move from: give --state etcd://...");
  MOORING_ASSIGN_OR_RETURN(config.manager.state_dir, NormalisePath("--state-dir", config.manager.state_dir));
  MOORING_RETURN_IF_ERROR(CheckNameOrNone("--host", config.manager.host));
  MOORING_RETURN_IF_ERROR(config.to_shared ? Annotate(CheckState(flags, config.manager), "--to")
                                           : CheckState(flags, config.manager));
  return config;
}

}  // namespace mooring::manager
