// What the plugin was started with: flags, each also an environment variable (MOORING_…; CSI_ENDPOINT for the
// endpoint).
#ifndef MOORING_PLUGIN_PROCESS_CONFIG_H_
#define MOORING_PLUGIN_PROCESS_CONFIG_H_

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "metrics/listen_address.h"
#include "mounter/mounter.h"
#include "plugin/model/staging_by.h"
#include "plugin/process/pool_config.h"
#include "plugin/process/run_as.h"

namespace mooring {

enum class Mode { kNode, kController, kMonolith };

// kHelper: a process of its own, while this one has no privilege. kInProcess: where no process can be started.
enum class MounterKind { kHelper, kInProcess };

// Whether mounts below a --mount-root have to be seen in other mount namespaces. kAuto: in a mount namespace of our
// own.
enum class SharedRoots { kAuto, kRequire, kIgnore };

// Where orchestrators, the manager and people put staging paths and targets, as these are installed by default. "/" is
// none of them: it has to be asked for by name.
std::vector<std::string> UsualMountRoots();

struct Config {
  std::string socket_path;  // of --endpoint
  std::string node_id;      // default: what the state directory records, else the host's name
  bool node_id_given = false;
  std::string state_dir = "/var/lib/mooring";  // resolved, made where it is missing
  std::vector<PoolConfig> pools;               // the default one among them; FindPools has seen them
  Mode mode = Mode::kMonolith;
  MounterKind mounter = MounterKind::kHelper;
  RunAs user;                                                // what the plugin works as once the helper runs
  std::vector<std::string> mount_roots = UsualMountRoots();  // staging paths and targets lie below one of them
  SharedRoots shared_roots = SharedRoots::kAuto;
  std::string driver_name = "mooring.csi";
  std::int64_t max_volumes = 0;                     // per node; 0: no limit
  std::map<std::string, std::string> topology;      // segments of this node, the node id's own among them
  Propagation propagation = Propagation::kInherit;  // of targets for which nobody names one
  std::string kubelet_registration_dir;             // empty: somebody else registers the plugin with kubelet, or nobody
  std::string kubelet_endpoint;                     // the socket as kubelet sees it
  StagingBy staging_by = StagingBy::kOrchestrator;
  bool grow_on_node = false;                // NodeExpandVolume does all of it, ControllerExpandVolume is not offered
  IfMissing if_missing = IfMissing::kMake;  // the state directory, and the pools' elsewhere
  bool volume_mount_group = false;          // NodeGetCapabilities offers VOLUME_MOUNT_GROUP
  std::optional<metrics::ListenAddress> metrics_listen = std::nullopt;  // none: there are no metrics
  std::string log_level = "info";
  std::string log_format = "text";
  std::chrono::seconds stop_timeout{60};  // calls under way may include an mkfs or a check of a filesystem
  bool print_version = false;

  bool serves_node() const { return mode != Mode::kController; }
  bool serves_controller() const { return mode != Mode::kNode; }
};

// Sets the node's id and the topology segment that carries it.
void SetNodeId(Config& config, const std::string& id);

// INVALID_ARGUMENT says which flag and what it may be. CANCELLED: help was asked for, it is the message.
absl::StatusOr<Config> ParseConfig(int argc, const char* const* argv);

}  // namespace mooring

#endif  // MOORING_PLUGIN_PROCESS_CONFIG_H_
