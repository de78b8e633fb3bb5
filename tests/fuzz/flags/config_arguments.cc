#include "tests/fuzz/flags/config_arguments.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "mounter/propagation.h"
#include "plugin/backends/registry.h"
#include "plugin/config/node_names.h"

namespace mooring::fuzz {
namespace {

using Arguments = std::vector<std::string>;

void Add(Arguments& arguments, std::string_view flag, std::string_view value) {
  arguments.push_back(fmt::format("--{}={}", flag, value));
}

// An empty text stands for a flag that is not given.
void AddIfAny(Arguments& arguments, std::string_view flag, std::string_view value) {
  if (!value.empty()) Add(arguments, flag, value);
}

void AddSwitch(Arguments& arguments, std::string_view flag, bool value) {
  if (value) arguments.push_back(fmt::format("--{}", flag));
}

void AddAddress(Arguments& arguments, const std::optional<metrics::ListenAddress>& address) {
  if (address) Add(arguments, "metrics-listen", metrics::ToString(*address));
}

std::string Text(const PoolConfig& pool) {
  std::string text = fmt::format("name={},backend={}", pool.name, ToString(pool.kind));
  if (!pool.path.empty()) text += ",path=" + pool.path;
  if (pool.bytes != 0) text += fmt::format(",size={}", pool.bytes);
  if (pool.shared) text += ",shared=true";
  const auto& keys = TypeOf(pool.kind).pool_keys;  // a tmpfs has a value without the key
  if (pool.overcommit && std::count(keys.begin(), keys.end(), "overcommit") > 0) {
    text += fmt::format(",overcommit={}", *pool.overcommit);
  }
  for (const auto& [key, value] : pool.own_keys) text += fmt::format(",{}={}", key, value);
  return text;
}

std::string Text(Mode mode) {
  if (mode == Mode::kMonolith) return "monolith";
  return mode == Mode::kNode ? "node" : "controller";
}

std::string Text(SharedRoots roots) {
  if (roots == SharedRoots::kAuto) return "auto";
  return roots == SharedRoots::kRequire ? "require" : "ignore";
}

}  // namespace

Arguments ArgumentsOf(const Config& config) {
  Arguments all;
  Add(all, "endpoint", config.socket_path);
  if (config.node_id_given) Add(all, "node-id", config.node_id);
  Add(all, "state-dir", config.state_dir);
  AddSwitch(all, "require-directories", config.if_missing == IfMissing::kRefuse);
  Add(all, "mode", Text(config.mode));
  Add(all, "mounter", config.mounter == MounterKind::kHelper ? "helper" : "in-process");
  if (config.user.uid != 0 || config.user.gid != 0)
    Add(all, "user", fmt::format("{}:{}", config.user.uid, config.user.gid));
  for (const std::string& root : config.mount_roots) Add(all, "mount-root", root);
  Add(all, "shared-roots", Text(config.shared_roots));
  for (const PoolConfig& pool : config.pools) Add(all, "pool", Text(pool));
  for (const std::string& type : config.fs_types) Add(all, "fs-type", type);
  Add(all, "driver-name", config.driver_name);
  Add(all, "max-volumes", std::to_string(config.max_volumes));
  Add(all, "propagation", ToString(config.propagation));
  Add(all, "staging-by", config.staging_by == StagingBy::kPlugin ? "plugin" : "orchestrator");
  for (const auto& [key, value] : config.topology) {
    if (key != NodeTopologyKey(config.driver_name)) Add(all, "topology", key + "=" + value);
  }
  AddIfAny(all, "kubelet-registration-dir", config.kubelet_registration_dir);
  AddIfAny(all, "kubelet-endpoint", config.kubelet_endpoint);
  AddSwitch(all, "grow-on-node", config.grow_on_node);
  AddSwitch(all, "volume-mount-group", config.volume_mount_group);
  Add(all, "stop-timeout", std::to_string(config.stop_timeout.count()));
  AddAddress(all, config.metrics_listen);
  Add(all, "log-level", config.log_level);
  Add(all, "log-format", config.log_format);
  return all;
}

Arguments ArgumentsOf(const manager::Config& config) {
  Arguments all;
  Add(all, "socket", config.socket_path);
  AddIfAny(all, "group", config.group);
  Add(all, "state-dir", config.state_dir);
  Add(all, "root", config.root);
  Add(all, "runtime-dir", config.runtime_dir);
  AddIfAny(all, "host", config.host);
  AddIfAny(all, "docker-socket", config.docker_socket);
  AddIfAny(all, "docker-plugin", config.docker_plugin);
  Add(all, "engine", config.engine);
  AddAddress(all, config.metrics_listen);
  Add(all, "log-level", config.log_level);
  Add(all, "log-format", config.log_format);
  Add(all, "stop-grace", std::to_string(config.stop_grace.count()));
  Add(all, "stop-timeout", std::to_string(config.stop_timeout.count()));
  Add(all, "recover-after", std::to_string(config.recover_after.count()));
  if (!config.etcd) return all;
  const manager::EtcdConnection& connection = config.etcd->connection;
  Add(all, "state", connection.endpoints);
  AddIfAny(all, "etcd-ca", connection.ca_file);
  AddIfAny(all, "etcd-cert", connection.certificate_file);
  AddIfAny(all, "etcd-key", connection.key_file);
  AddIfAny(all, "etcd-user", connection.user);
  AddIfAny(all, "etcd-password-file", connection.password_file);
  Add(all, "etcd-prefix", config.etcd->prefix);
  AddIfAny(all, "etcd-secrets-key", config.etcd->secrets_key_file);
  Add(all, "etcd-lease",
      std::to_string(std::chrono::duration_cast<std::chrono::seconds>(config.etcd->lease_ttl).count()));
  AddSwitch(all, "etcd-insecure", true);
  return all;
}

}  // namespace mooring::fuzz
