#include "plugin/config/config.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file/path.h"
#include "base/server_start.h"
#include "base/socket_path.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/propagation.h"
#include "plugin/config/node_names.h"
#include "plugin/kubelet/kubelet_registration.h"
#include "plugin/model/fs_types.h"

namespace mooring {
namespace {

constexpr std::string_view kRegistry = "plugins_registry";  // below kubelet's root directory

// The flags as text.
struct Flags {
  std::string endpoint, node_id;
  std::string state_dir = Config().state_dir;
  std::string mode = "monolith";
  std::string mounter = "helper";
  std::string user;
  std::vector<std::string> mount_roots = Config().mount_roots;
  std::string shared_roots = "auto";
  std::string driver_name = Config().driver_name;
  std::string max_volumes = "0";
  std::string propagation{ToString(Config().propagation)};
  std::string staging_by = "orchestrator";
  std::vector<std::string> pools;
  std::vector<std::string> fs_types;
  std::vector<std::string> topology;
  std::string kubelet_registration_dir, kubelet_endpoint;
  bool grow_on_node = false;
  bool volume_mount_group = false;
  bool require_directories = false;
  std::string stop_timeout = fmt::format("{}", Config().stop_timeout.count());
  std::string metrics_listen;
  std::string log_level = Config().log_level;
  std::string log_format = Config().log_format;
};

absl::StatusOr<Mode> ParseMode(const std::string& mode) {
  if (mode == "node") return Mode::kNode;
  if (mode == "controller") return Mode::kController;
  if (mode == "monolith") return Mode::kMonolith;
  return WrongFlag("--mode", mode, "use node, controller or monolith");
}

absl::StatusOr<MounterKind> ParseMounter(const std::string& kind) {
  if (kind == "helper") return MounterKind::kHelper;
  if (kind == "in-process") return MounterKind::kInProcess;
  return WrongFlag("--mounter", kind, "use helper or in-process");
}

absl::StatusOr<RunAs> ParseUser(const std::string& text, MounterKind mounter) {
  MOORING_ASSIGN_OR_RETURN(const RunAs user, ParseRunAs(text));
  if (user.is_root() || mounter == MounterKind::kHelper) return user;
  return WrongFlag("--user", text, "only root mounts: that is for --mounter=helper");
}

// "/a:/b" would be a valid path, and hardly ever one that is meant.
absl::Status CheckIsOneRoot(const std::string& root) {
  for (const char* separator : {":/", ";/", " /"}) {
    if (root.find(separator) == std::string::npos) continue;
    return WrongFlag("--mount-root", root, "several directories are separated by commas: /a,/b");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> ParseMountRoots(const std::vector<std::string>& roots) {
  std::vector<std::string> normal;
  for (const std::string& root : roots) {
    if (root == "/") {
      normal.push_back(root);
      continue;
    }
    MOORING_RETURN_IF_ERROR(CheckIsOneRoot(root));
    MOORING_ASSIGN_OR_RETURN(std::string path, NormalisePath("--mount-root", root));
    normal.push_back(std::move(path));
  }
  return normal;
}

absl::StatusOr<SharedRoots> ParseSharedRoots(const std::string& word, const std::vector<std::string>& roots) {
  if (word == "auto") return SharedRoots::kAuto;
  if (word == "ignore") return SharedRoots::kIgnore;
  if (word != "require") return WrongFlag("--shared-roots", word, "use auto, require or ignore");
  const bool said = roots != UsualMountRoots() && roots != std::vector<std::string>{"/"};
  if (said) return SharedRoots::kRequire;
  return WrongFlag("--shared-roots", word, "say with --mount-root which directories those are");
}

absl::StatusOr<std::int64_t> ParseMaxVolumes(const std::string& text) {
  return ParseNumber("--max-volumes", text, std::numeric_limits<std::int64_t>::max(),
                     "use a whole number, 0 for no limit");
}

absl::StatusOr<Propagation> ParsePropagationFlag(const std::string& word) {
  const absl::StatusOr<Propagation> parsed = ParsePropagation(word);
  return parsed.ok() ? parsed : Annotate(parsed.status(), "--propagation");
}

absl::StatusOr<StagingBy> ParseStagingBy(const std::string& word) {
  if (word == "orchestrator") return StagingBy::kOrchestrator;
  if (word == "plugin") return StagingBy::kPlugin;
  return WrongFlag("--staging-by", word, "use orchestrator, or plugin for Docker Swarm");
}

// Kubelet publishes a volume without staging it if it has staged it before and not unstaged it. So the plugin must not
// unstage by itself.
absl::Status CheckStagingBy(const Config& config) {
  if (config.staging_by == StagingBy::kOrchestrator || config.kubelet_registration_dir.empty()) return absl::OkStatus();
  return WrongFlag("--staging-by", "plugin", "kubelet stages and unstages itself: not with --kubelet-registration-dir");
}

absl::StatusOr<std::string> CheckEndpoint(const std::string& endpoint) {
  if (endpoint.empty()) return InvalidArgument("--endpoint (or CSI_ENDPOINT) is missing: write unix:///path/csi.sock");
  return CheckSocket("--endpoint", endpoint);
}

absl::StatusOr<std::string> CheckRegistrationDir(const std::string& directory, const Config& config) {
  constexpr std::string_view kFlag = "--kubelet-registration-dir";
  MOORING_ASSIGN_OR_RETURN(const std::string path, NormalisePath(kFlag, directory));
  if (!config.serves_node())
    return WrongFlag(kFlag, directory, "kubelet takes node plugins: not with --mode controller");
  if (path == ParentOf(config.socket_path)) {
    return WrongFlag(kFlag, directory, "that is where --endpoint is: give kubelet's, …/plugins_registry");
  }
  const absl::Status fits = ParseSocketPath(KubeletRegistration::HiddenPath(path, config.driver_name)).status();
  return fits.ok() ? absl::StatusOr<std::string>(path) : WrongFlag(kFlag, directory, Message(fits));
}

// A registration directory with another name is a path inside a container. Then kubelet needs another path for the
// endpoint, too, and the plugin cannot know it.
absl::StatusOr<std::string> CheckKubeletEndpoint(const std::string& endpoint, const Config& config) {
  const std::string& directory = config.kubelet_registration_dir;
  if (!endpoint.empty()) {
    if (directory.empty()) return WrongFlag("--kubelet-endpoint", endpoint, "give --kubelet-registration-dir, too");
    return CheckSocket("--kubelet-endpoint", endpoint);
  }
  if (directory.empty()) return std::string();
  if (NameOf(directory) == kRegistry) return config.socket_path;
  return InvalidArgument(
      "--kubelet-endpoint is missing: --kubelet-registration-dir {} is not the path that kubelet has for it (…/{}), so "
      "{} will be another for it, too: give it, as /var/lib/kubelet/plugins/{}/csi.sock",
      Quote(directory), kRegistry, Quote(config.socket_path), config.driver_name);
}

absl::Status ReadNode(const Flags& flags, Config& config) {
  MOORING_ASSIGN_OR_RETURN(config.socket_path, CheckEndpoint(flags.endpoint));
  MOORING_ASSIGN_OR_RETURN(config.mode, ParseMode(flags.mode));
  MOORING_ASSIGN_OR_RETURN(config.driver_name, CheckDriverName(flags.driver_name));
  MOORING_ASSIGN_OR_RETURN(const std::string node_id, CheckNodeId(flags.node_id));
  config.node_id_given = !flags.node_id.empty();
  MOORING_ASSIGN_OR_RETURN(config.topology, ParseTopology(flags.topology, config.driver_name));
  SetNodeId(config, node_id);
  if (!flags.kubelet_registration_dir.empty()) {
    MOORING_ASSIGN_OR_RETURN(config.kubelet_registration_dir,
                             CheckRegistrationDir(flags.kubelet_registration_dir, config));
  }
  MOORING_ASSIGN_OR_RETURN(config.kubelet_endpoint, CheckKubeletEndpoint(flags.kubelet_endpoint, config));
  return absl::OkStatus();
}

absl::Status ReadVolumes(const Flags& flags, Config& config) {
  MOORING_ASSIGN_OR_RETURN(config.state_dir, NormalisePath("--state-dir", flags.state_dir));
  MOORING_ASSIGN_OR_RETURN(config.pools, ParsePools(flags.pools));
  for (const std::string& type : flags.fs_types) {
    const absl::Status fits = CheckOtherFsType(type);
    if (!fits.ok()) return WrongFlag("--fs-type", type, Message(fits));
  }
  config.fs_types = flags.fs_types;
  MOORING_ASSIGN_OR_RETURN(config.mount_roots, ParseMountRoots(flags.mount_roots));
  config.mount_roots_given = config.mount_roots != UsualMountRoots();
  MOORING_ASSIGN_OR_RETURN(config.shared_roots, ParseSharedRoots(flags.shared_roots, config.mount_roots));
  MOORING_ASSIGN_OR_RETURN(config.max_volumes, ParseMaxVolumes(flags.max_volumes));
  MOORING_ASSIGN_OR_RETURN(config.propagation, ParsePropagationFlag(flags.propagation));
  MOORING_ASSIGN_OR_RETURN(config.staging_by, ParseStagingBy(flags.staging_by));
  config.grow_on_node = flags.grow_on_node;
  config.volume_mount_group = flags.volume_mount_group;
  if (flags.require_directories) config.if_missing = IfMissing::kRefuse;
  return CheckStagingBy(config);
}

absl::Status ReadProcess(const Flags& flags, Config& config) {
  MOORING_ASSIGN_OR_RETURN(config.mounter, ParseMounter(flags.mounter));
  MOORING_ASSIGN_OR_RETURN(config.user, ParseUser(flags.user, config.mounter));
  MOORING_ASSIGN_OR_RETURN(config.stop_timeout, ParseSeconds("--stop-timeout", flags.stop_timeout));
  MOORING_ASSIGN_OR_RETURN(config.metrics_listen, metrics::ParseListenFlag(flags.metrics_listen));
  if (config.metrics_listen && config.metrics_listen->socket_path == config.socket_path) {
    return WrongFlag("--metrics-listen", flags.metrics_listen, "that is --endpoint: choose another socket");
  }
  MOORING_ASSIGN_OR_RETURN(config.log_level,
                           CheckChoice("--log-level", flags.log_level, {"debug", "info", "warning", "error"}));
  MOORING_ASSIGN_OR_RETURN(config.log_format, CheckChoice("--log-format", flags.log_format, {"text", "json"}));
  return absl::OkStatus();
}

absl::StatusOr<Config> ReadFlags(const Flags& flags) {
  Config config;
  MOORING_RETURN_IF_ERROR(ReadNode(flags, config));
  MOORING_RETURN_IF_ERROR(ReadVolumes(flags, config));
  MOORING_RETURN_IF_ERROR(ReadProcess(flags, config));
  return config;
}

void AddFlags(CLI::App& app, Flags& flags) {
  const auto add = [&app](const char* name, std::string& value, const char* environment, const char* help) {
    AddTextFlag(app, name, value, environment, help);
  };
  const auto add_list = [&app](const char* name, std::vector<std::string>& values, const char* environment,
                               char delimiter, const char* help) {
    return app.add_option(name, values, help)
        ->envname(environment)
        ->type_name("TEXT")
        ->check(NoOuterBlanks)
        ->delimiter(delimiter)
        ->allow_extra_args(false);
  };
  add("--endpoint", flags.endpoint, "CSI_ENDPOINT",
      "socket to serve: unix:///csi/csi.sock, or its path [MOORING_ENDPOINT]");
  add("--node-id", flags.node_id, "MOORING_NODE_ID",
      "this node's id (default: the one its volumes were made under, else the host's name)");
  add("--state-dir", flags.state_dir, "MOORING_STATE_DIR", "directory of volumes and records");
  app.add_flag("--require-directories", flags.require_directories,
               "wait for missing directories of state and pools, and make none: for directories on a disk that may be "
               "mounted late")
      ->envname("MOORING_REQUIRE_DIRECTORIES");
  add("--mode", flags.mode, "MOORING_MODE", "services to offer: node, controller or monolith (both)");
  add("--mounter", flags.mounter, "MOORING_MOUNTER",
      "process that mounts: helper (a separate, privileged process; this one gives up its privileges) or in-process");
  add("--user", flags.user, "MOORING_USER",
      "user of this process once the mount helper runs: NAME or UID, and :GROUP or :GID (default: the user that "
      "started it)");
  add_list("--mount-root", flags.mount_roots, "MOORING_MOUNT_ROOT", ',',
           "directory that staging paths and targets lie below; may be repeated, or several with commas")
      ->capture_default_str();
  add("--shared-roots", flags.shared_roots, "MOORING_SHARED_ROOTS",
      "whether mounts below --mount-root must be visible in other mount namespaces: auto (in a container), require or "
      "ignore");
  add_list(
      "--pool", flags.pools, "MOORING_POOL", ';',
      "pool of volumes: name=NAME,backend=image|directory|device|tmpfs|btrfs|nfs|lvm|luks and keys of that backend "
      "(path=, overcommit=, shared=, match=, size=, quota=, server=, export=, options=, vg=, thinpool=, keyfile=); may "
      "be repeated, or several with semicolons");
  add_list("--fs-type", flags.fs_types, "MOORING_FS_TYPE", ',',
           "type of filesystems that disks of device pools may have beside ext4, xfs and btrfs, as vfat; may be "
           "repeated, or several with commas");
  add("--driver-name", flags.driver_name, "MOORING_DRIVER_NAME", "name of the plugin for orchestrators");
  add("--max-volumes", flags.max_volumes, "MOORING_MAX_VOLUMES",
      "most volumes published to this node at a time, 0: no limit");
  add("--propagation", flags.propagation, "MOORING_PROPAGATION",
      "propagation of targets, if neither volume nor request names one: inherit, private, rslave or rshared");
  add("--staging-by", flags.staging_by, "MOORING_STAGING_BY",
      "who makes staging directories and unstages: orchestrator, or plugin (for Docker Swarm, which does neither)");
  add_list("--topology", flags.topology, "MOORING_TOPOLOGY", ',',
           "topology segment of this node, key=value; may be repeated, or several with commas");
  add("--kubelet-registration-dir", flags.kubelet_registration_dir, "MOORING_KUBELET_REGISTRATION_DIR",
      "register with kubelet in this directory of kubelet: /var/lib/kubelet/plugins_registry");
  add("--kubelet-endpoint", flags.kubelet_endpoint, "MOORING_KUBELET_ENDPOINT",
      "path of the socket on the host, for kubelet (default: the path of --endpoint)");
  app.add_flag("--grow-on-node", flags.grow_on_node,
               "volumes grow by NodeExpandVolume alone, for orchestrators whose controller is on another node")
      ->envname("MOORING_GROW_ON_NODE");
  app.add_flag("--volume-mount-group", flags.volume_mount_group,
               "offer VOLUME_MOUNT_GROUP: the plugin gives the root directory of a volume to a pod's fsGroup, and "
               "kubelet leaves the files in it as they are")
      ->envname("MOORING_VOLUME_MOUNT_GROUP");
  add("--stop-timeout", flags.stop_timeout, "MOORING_STOP_TIMEOUT",
      "seconds that calls under way have to end after SIGTERM");
  add("--metrics-listen", flags.metrics_listen, "MOORING_METRICS_LISTEN",
      "address to serve metrics on: 127.0.0.1:9850, [::1]:9850, :9850 (all addresses) or unix:/path/metrics.sock "
      "(default: none)");
  add("--log-level", flags.log_level, "MOORING_LOG_LEVEL", "debug, info, warning or error");
  add("--log-format", flags.log_format, "MOORING_LOG_FORMAT", "text or json");
}

}  // namespace

std::vector<std::string> UsualMountRoots() {
  return {"/var/lib/kubelet/plugins/kubernetes.io/csi",
          "/var/lib/kubelet/pods",
          "/local/csi",  // Nomad, in the plugin's own task
          "/opt/nomad/data/client/csi",
          "/var/lib/nomad/client/csi",
          "/var/lib/mooring-manager/mounts",
          "/mnt",
          "/srv"};
}

void SetNodeId(Config& config, const std::string& id) {
  config.node_id = id;
  config.topology[NodeTopologyKey(config.driver_name)] = NodeTopologyValue(id);
}

absl::StatusOr<Config> ParseConfig(int argc, const char* const* argv) {
  CLI::App app("mooring-plugin: a CSI driver for volumes on this Linux node", "mooring-plugin");
  Flags flags;
  AddFlags(app, flags);
  MOORING_RETURN_IF_ERROR(ParseFlags(app, argc, argv));
  if (app.count("--endpoint") == 0) {
    const char* const ours = std::getenv("MOORING_ENDPOINT");
    if (ours != nullptr) flags.endpoint = ours;
  }
  return ReadFlags(flags);
}

}  // namespace mooring
