// The plugin's configuration. Each flag can also be an environment variable: MOORING_…, and CSI_ENDPOINT for
// --endpoint.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file/path_link.h"
#include "base/file/real_directory.h"
#include "metrics/listen_address.h"
#include "mounter/mounter.h"
#include "plugin/config/pool_config.h"
#include "plugin/config/run_as.h"
#include "plugin/model/backend_traits.h"

namespace mooring {

enum class Mode { kNode, kController, kMonolith };

// kHelper: a separate process mounts, and this one has no privileges. kInProcess: for hosts that allow no second
// process.
enum class MounterKind { kHelper, kInProcess };

// Whether mounts below a --mount-root must be visible in other mount namespaces. kAuto: if the plugin has a mount
// namespace of its own.
enum class SharedRoots { kAuto, kRequire, kIgnore };

// The default directories of orchestrators, the manager and administrators for staging paths and targets. "/" is used
// only if a flag names it.
std::vector<std::string> UsualMountRoots();

struct Config {
  std::string socket_path;  // of --endpoint
  std::string node_id;      // default: the id in the state directory, else the host's name
  bool node_id_given = false;
  std::string state_dir = "/var/lib/mooring";  // made if it is missing
  std::vector<PoolConfig> pools;               // with the default pool
  std::vector<std::string> fs_types;           // of device pools, beside ext4, xfs and btrfs
  Mode mode = Mode::kMonolith;
  MounterKind mounter = MounterKind::kHelper;
  RunAs user;                                                // the plugin's user once the helper runs
  std::vector<std::string> mount_roots = UsualMountRoots();  // staging paths and targets lie below one of them
  bool mount_roots_given = false;                            // by --mount-root, not the usual ones
  std::vector<PathLink> root_links;                          // mount roots that led through a symbolic link
  SharedRoots shared_roots = SharedRoots::kAuto;
  std::string driver_name = "mooring.csi";
  std::int64_t max_volumes = 0;                     // per node; 0: no limit
  std::map<std::string, std::string> topology;      // segments of this node, with the segment of its id
  Propagation propagation = Propagation::kInherit;  // of targets without a propagation of their own
  std::string kubelet_registration_dir;             // empty: the plugin does not register with kubelet
  std::string kubelet_endpoint;                     // the socket as kubelet sees it
  StagingBy staging_by = StagingBy::kOrchestrator;
  bool grow_on_node = false;  // NodeExpandVolume also grows the image; ControllerExpandVolume is not offered
  IfMissing if_missing = IfMissing::kMake;  // of the state directory, and of pools outside it
  bool volume_mount_group = false;          // NodeGetCapabilities offers VOLUME_MOUNT_GROUP
  std::optional<metrics::ListenAddress> metrics_listen = std::nullopt;  // empty: no metrics
  std::string log_level = "info";
  std::string log_format = "text";
  std::chrono::seconds stop_timeout{60};  // calls under way may include an mkfs or a check of a filesystem

  bool serves_node() const { return mode != Mode::kController; }
  bool serves_controller() const { return mode != Mode::kNode; }
};

// Sets the node's id and the topology segment that carries it.
void SetNodeId(Config& config, const std::string& id);

// INVALID_ARGUMENT names the flag and its valid values. CANCELLED: the message is the text of --help or --version.
absl::StatusOr<Config> ParseConfig(int argc, const char* const* argv);

}  // namespace mooring
