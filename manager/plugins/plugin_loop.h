// Keeps an InstanceManager for every registered instance in use, and gives plugins to the rest of the manager.
//
//   Registry ──events──▶ loop thread (one per type) ──▶ InstanceManager ◀── PluginWatch, in the plugin's thread
//                        resync every 30 s                     │ health
//                                                              ▼
//                                                       Events, PluginCounts
//
// Node calls go to the newest instance of a plugin, the front of the registry. Controller calls are spread over all
// healthy instances. A new front takes over at once; the old one is stopped in the background. The loop never waits for
// a plugin.
#ifndef MOORING_MANAGER_PLUGINS_PLUGIN_LOOP_H_
#define MOORING_MANAGER_PLUGINS_PLUGIN_LOOP_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "manager/plugins/instance_manager.h"
#include "manager/plugins/plugin_directory.h"
#include "manager/plugins/registry.h"
#include "manager/records/events.h"

namespace mooring::manager {

struct PluginHealth {
  std::string plugin;
  bool healthy = false;  // the plugin has a healthy instance now
  bool changed = false;  // false: only the first inspection of an instance that an earlier manager left
};

class PluginLoop final : public PluginDirectory {
 public:
  struct Settings {
    Clock::duration resync = std::chrono::seconds(30);
    Clock::duration last_inspection = std::chrono::seconds(1);
  };
  // A declared plugin, with the number of instances in each role. AskExpected is called for every status.
  struct Expected {
    std::string plugin;
    int nodes = 0, controllers = 0;
  };
  using AskExpected = std::function<std::vector<Expected>()>;

  // All references outlive the loop. Starts at once.
  PluginLoop(Registry& registry, Events& events, CsiConnector connect, AskExpected expected, Settings settings);
  ~PluginLoop() override;

  void BeginStop();  // calls that wait for a plugin, now and later, get CANCELLED

  // Stops the loop, then all instances in parallel, and waits for them.
  void Stop();

  absl::StatusOr<ReadyPlugin> WaitForNode(const std::string& plugin, Clock::time_point until) override;
  absl::StatusOr<ReadyPlugin> PickController(const std::string& plugin, Clock::time_point until) override;
  absl::StatusOr<PluginStatus> Find(const std::string& plugin) override;
  std::vector<PluginStatus> List() override;

  // The roles of the plugin's instances in use, for its watch. Waits until the loop has followed the registry.
  std::vector<std::shared_ptr<InstanceManager>> InUse(const std::string& plugin);

  // Like Find, but waits until the health of each instance in use is known. DEADLINE_EXCEEDED: it was not known in
  // time. CANCELLED: the manager is stopping.
  absl::StatusOr<PluginStatus> WaitUntilInspected(const std::string& plugin, Clock::time_point until);

  // `callback` is called after the first inspection of an instance, and whenever its health changes: from the
  // plugin's thread, with no lock held. Calls to the plugin belong to another thread.
  void OnHealth(std::function<void(const PluginHealth& health)> callback);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_PLUGINS_PLUGIN_LOOP_H_
