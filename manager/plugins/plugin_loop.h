// Keeps an InstanceManager for every registered instance in use, and gives plugins to the rest of the manager.
//
//   Registry ──events──▶ loop thread (one per type) ──▶ InstanceManager ◀── PluginWatch, in the plugin's thread
//                        resync every 30 s                     │ health
//                                                              ▼
//                                                       Events
//
// Node calls go to the newest instance of a plugin, the front of the registry. Controller calls are spread over all
// healthy instances. A new front takes over at once; the old one is stopped in the background. The loop never waits for
// a plugin.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
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
  absl::StatusOr<ReadyPlugin> PickController(const ControllerFor& call, Clock::time_point until) override;
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
  using Managed = std::shared_ptr<InstanceManager>;
  using InstanceKey = std::pair<PluginType, std::string>;  // with the instance id

  static InstanceKey KeyOf(const InstanceInfo& instance) { return {instance.type, instance.instance_id}; }

  // The loop.
  void Run(PluginType type);
  void Handle(const RegistryEvent& event);
  void Resync(PluginType type);
  void Ensure(PluginType type, const std::string& name);
  std::vector<InstanceInfo> Wanted(PluginType type, const std::string& name) const;
  std::vector<Managed> Replace(PluginType type, const std::string& name, const std::vector<InstanceInfo>& wanted);
  Managed Start(const InstanceInfo& instance);
  void StopInBackground(std::vector<Managed> instances);

  // Called from the plugin's thread, or from that of a stop.
  void Changed(const InstanceInfo& instance, const Fingerprint& found, const Fingerprint& before);

  // Called under mutex_.
  const std::vector<Managed>& Of(PluginType type, const std::string& name) const;
  const InstanceManager* FindManager(const InstanceInfo& instance) const;
  bool HasHealthy(const std::string& name) const;
  RoleCount Count(PluginType type, const std::string& name) const;
  Managed NextHealthyController(const std::string& name);
  std::string LastErrors(PluginType type, const std::string& name) const;

  absl::StatusOr<ReadyPlugin> Wait(PluginType type, const std::string& name, Clock::time_point until,
                                   const std::function<Managed()>& find);
  RoleCount Describe(PluginType type, PluginStatus& status) const;

  Registry& registry_;
  Events& events_;
  const CsiConnector connect_;
  const AskExpected expected_;
  const Settings settings_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;                                             // instances, or the health of one
  std::map<PluginType, std::map<std::string, std::vector<Managed>>> managers_;  // newest first
  std::map<std::string, RoleCount> replaced_nodes_;  // by plugin: the count before the newest node instance
  std::map<std::string, std::uint64_t> turns_;       // of controllers, by plugin
  std::set<InstanceKey> left_;            // instances of an earlier manager that this one has not inspected yet
  std::vector<std::future<void>> stops_;  // of instances, in the background
  std::vector<std::function<void(const PluginHealth&)>> callbacks_;
  bool waits_end_ = false;
  bool stopping_ = false;

  std::map<PluginType, std::unique_ptr<Registry::Subscription>> subscriptions_;
  std::vector<std::jthread> threads_;
};

}  // namespace mooring::manager
