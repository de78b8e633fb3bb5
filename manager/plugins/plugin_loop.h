// Keeps an InstanceManager for every registered instance, and finds plugins for the rest: the manager loop, (b).
//
//   Registry ──events──▶ loop thread (one a type) ──▶ InstanceManager (a thread each) ──▶ plugin
//                        resync every 30 s                     │ health
//                                                              ▼
//                                                       Events, counts (g)
//
// The front of each name is the one that node calls go to. Controller instances behind the front are kept, too: their
// calls are spread over all healthy ones, (k) 3. A new front takes over at once; the reaper ends the
// old one. The loop never waits for a plugin.
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
  bool healthy = false;  // it has a healthy instance now
  bool changed = false;  // false: an earlier manager has left the instance, and this one has not seen it before
};

class PluginLoop final : public PluginDirectory {
 public:
  struct Settings {
    Clock::duration resync = std::chrono::seconds(30);
    InstanceManager::Settings instance;
  };
  // Which plugins are declared, and how often each role: (k) 5. Asked whenever somebody wants a status.
  struct Expected {
    std::string plugin;
    int nodes = 0, controllers = 0;
  };
  using AskExpected = std::function<std::vector<Expected>()>;

  // All outlive the loop. Starts at once.
  PluginLoop(Registry& registry, Events& events, CsiConnector connect, AskExpected expected, Settings settings);
  ~PluginLoop() override;

  void EndWaits();  // those that wait for a plugin, now and later, get CANCELLED

  // Stops the loop, waits for it, stops all instances in parallel, and returns when all are done. (b) 5.
  void Shutdown();

  absl::StatusOr<ReadyPlugin> WaitForNode(const std::string& plugin, Clock::time_point until) override;
  absl::StatusOr<ReadyPlugin> PickController(const std::string& plugin, Clock::time_point until) override;
  absl::StatusOr<PluginStatus> Find(const std::string& plugin) override;
  std::vector<PluginStatus> List() override;

  // Like Find, but waits until the health of each instance in use is known. DEADLINE_EXCEEDED: it was not in time.
  // NOT_FOUND: nothing is known of the plugin. CANCELLED: the manager is stopping.
  absl::StatusOr<PluginStatus> WaitUntilLookedAt(const std::string& plugin, Clock::time_point until);

  // Called, with no lock held, when an instance is seen for the first time and whenever it turns sick or well. What is
  // owed to its plugin is sent then, (k) 4 and 6: by another thread, for this is the instance's.
  void OnHealth(std::function<void(const PluginHealth& health)> callback);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_PLUGINS_PLUGIN_LOOP_H_
