// Interface through which the rest of the manager finds plugins to call. PluginSet (plugin_set.h) implements it.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "manager/csi/csi_channel.h"
#include "manager/plugins/fingerprint.h"
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

// "instance 'x': Probe: out of paper", for errors that say why a plugin cannot serve.
std::string LastErrorOf(const InstanceInfo& instance, const Fingerprint& found);

// The instances of a plugin in one role. An instance that nobody declared is expected from its first success on.
struct RoleCount {
  int healthy = 0;
  int expected = 0;

  bool operator==(const RoleCount&) const = default;
};

struct PluginStatus {
  std::string name;
  RoleCount nodes, controllers;
  bool controller_required = false;
  std::vector<InstanceStatus> instances;

  // Whether an orchestrator may place workloads that use the plugin.
  bool schedulable() const { return nodes.healthy > 0 && (!controller_required || controllers.healthy > 0); }

  // Whether it has instances, and all that are in use have been inspected.
  bool inspected() const;
};

// Whether a node with these segments can reach a volume with these topologies (CSI 1.12, Topology). True if either is
// empty.
bool IsReachable(const std::vector<Topology>& topologies, const StringMap& node);

// The topology that the plugin gives this host; empty: none, or it is not known.
StringMap NodeTopology(const PluginStatus& plugin);

// False: its node service has not answered yet.
bool IsTopologyKnown(const PluginStatus& plugin);

// The controller for a call: of this plugin, and, if the call is about a volume, on a host that can reach the volume. A
// plugin whose volumes are local to a host has a controller on each host, which knows only the volumes there.
struct ControllerFor {
  ControllerFor(std::string plugin_name) : plugin(std::move(plugin_name)) {}  // NOLINT(google-explicit-constructor)
  ControllerFor(const char* plugin_name) : plugin(plugin_name) {}             // NOLINT(google-explicit-constructor)
  explicit ControllerFor(const Volume& volume);

  std::string plugin;
  std::vector<Topology> reaches;  // empty: any host
  // The plugin has made the volume or snapshot. A controller that refuses the call may lack the storage below, as a
  // plugin that was started without one of its pools. Then the controllers of other hosts are asked.
  bool is_known = false;
  std::vector<std::string> refused_by = {};  // hosts whose controllers refused the call already
};

class PluginDirectory {
 public:
  virtual ~PluginDirectory() = default;

  // Waits for a node instance, and for its first successful inspection; gives the newest. UNAVAILABLE names the plugin
  // and the last error of the instance. CANCELLED: the manager is stopping.
  virtual absl::StatusOr<ReadyPlugin> WaitForNode(const std::string& plugin, Clock::time_point until) = 0;

  // Waits for a healthy controller instance, and gives each in turn. Errors as above, with the last error of each
  // instance. A directory of one host gives those of this host, wherever it is.
  virtual absl::StatusOr<ReadyPlugin> PickController(const ControllerFor& call, Clock::time_point until) = 0;

  // Does not wait for a plugin. NOT_FOUND: no such plugin is registered or declared.
  virtual absl::StatusOr<PluginStatus> Find(const std::string& plugin) = 0;
  virtual std::vector<PluginStatus> List() = 0;
};

}  // namespace mooring::manager
