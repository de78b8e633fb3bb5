// Where the rest of the manager finds plugins to call. Implemented by PluginLoop (plugin_loop.h); a fake stands in for
// it in tests.
#ifndef MOORING_MANAGER_PLUGINS_PLUGIN_DIRECTORY_H_
#define MOORING_MANAGER_PLUGINS_PLUGIN_DIRECTORY_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "manager/csi/csi_channel.h"
#include "manager/plugins/fingerprint.h"
#include "manager/plugins/plugin_counts.h"
#include "manager/records/records.h"

namespace mooring::manager {

struct ReadyPlugin {
  InstanceInfo instance;
  Fingerprint fingerprint;  // complete
  std::shared_ptr<CsiChannel> channel;
};

struct InstanceStatus {
  InstanceInfo instance;
  bool front = false;
  Fingerprint fingerprint;
};

// "instance 'x': Probe: out of paper", for messages that say why a plugin cannot serve.
std::string LastWordsOf(const InstanceInfo& instance, const Fingerprint& found);

struct PluginStatus {
  std::string name;
  RoleCount nodes, controllers;  // (g)
  bool controller_required = false;
  std::vector<InstanceStatus> instances;

  // (f) 7.
  bool schedulable() const { return nodes.healthy > 0 && (!controller_required || controllers.healthy > 0); }
};

class PluginDirectory {
 public:
  virtual ~PluginDirectory() = default;

  // The newest node instance, once it had its first full success: waits for both. UNAVAILABLE names the plugin and what
  // the instance last said. CANCELLED: the manager is stopping.
  virtual absl::StatusOr<ReadyPlugin> WaitForNode(const std::string& plugin, Clock::time_point until) = 0;

  // One of the healthy controller instances, in turn, (k) 3; waits for one. UNAVAILABLE as above, of each instance.
  virtual absl::StatusOr<ReadyPlugin> PickController(const std::string& plugin, Clock::time_point until) = 0;

  // Never waits for a plugin. NOT_FOUND: nothing is known of it.
  virtual absl::StatusOr<PluginStatus> Find(const std::string& plugin) = 0;
  virtual std::vector<PluginStatus> List() = 0;
};

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_PLUGINS_PLUGIN_DIRECTORY_H_
