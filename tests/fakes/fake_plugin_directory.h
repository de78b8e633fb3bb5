// A PluginDirectory with the plugins that a test adds, without registry, loop or threads. Safe from several threads.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/text/quote.h"
#include "manager/plugins/plugin_directory.h"
#include "tests/fakes/fake_csi_plugin.h"

namespace mooring::testing {

class FakePluginDirectory final : public manager::PluginDirectory {
 public:
  using Clock = manager::Clock;

  // Adds a healthy plugin under its own name, in both roles, or as node alone if it has no controller.
  void Add(const std::shared_ptr<FakeCsiPlugin>& plugin) {
    const std::lock_guard<std::mutex> lock(mutex_);
    Entry& entry = plugins_[plugin->features().name];
    entry = {};
    entry.channel = ChannelTo(plugin);
    entry.plugin = plugin;
    changed_.notify_all();
  }
  void Remove(const std::string& name) {
    const std::lock_guard<std::mutex> lock(mutex_);
    plugins_.erase(name);
  }
  // Makes the plugin sick, with this error. Calls that wait for it wait until it is healthy again.
  void SetHealthy(const std::string& name, bool node, bool controller, const std::string& words = "is sick") {
    const std::lock_guard<std::mutex> lock(mutex_);
    Entry& entry = plugins_.at(name);
    entry.node_healthy = node;
    entry.controller_healthy = controller;
    entry.words = words;
    changed_.notify_all();
  }

  // Whether a healthy controller is on a host that can reach the volumes.
  void SetReachesVolumes(const std::string& name, bool reaches) {
    const std::lock_guard<std::mutex> lock(mutex_);
    plugins_.at(name).reaches_volumes = reaches;
  }

  // Whether it has answered once. Before, nothing is known of its services.
  void SetAnswered(const std::string& name, bool answered) {
    const std::lock_guard<std::mutex> lock(mutex_);
    plugins_.at(name).answered = answered;
    changed_.notify_all();
  }

  // Whether its node service has answered. Before, its topology is not known.
  void SetNodeAnswered(const std::string& name, bool answered) {
    const std::lock_guard<std::mutex> lock(mutex_);
    plugins_.at(name).node_answered = answered;
    changed_.notify_all();
  }

  // Called once, before the next WaitForNode, with no lock held, so that a test can change the plugins in between.
  void BeforeWaitForNode(std::function<void()> hook) {
    const std::lock_guard<std::mutex> lock(mutex_);
    before_wait_ = std::move(hook);
  }

  absl::StatusOr<manager::ReadyPlugin> WaitForNode(const std::string& name, Clock::time_point until) override {
    if (const auto hook = TakeHook()) hook();
    return Wait(name, manager::PluginType::kNode, until);
  }
  absl::StatusOr<manager::ReadyPlugin> PickController(const manager::ControllerFor& call,
                                                      Clock::time_point until) override {
    if (!ReachesVolumes(call.plugin)) return Unavailable("no controller of plugin {} reaches it", Quote(call.plugin));
    return Wait(call.plugin, manager::PluginType::kController, until);
  }
  absl::StatusOr<manager::PluginStatus> Find(const std::string& name) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto entry = plugins_.find(name);
    if (entry == plugins_.end()) return NotFound("plugin {} is neither registered nor declared", Quote(name));
    return Status(name, entry->second);
  }
  std::vector<manager::PluginStatus> List() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::vector<manager::PluginStatus> all;
    for (const auto& [name, entry] : plugins_) all.push_back(Status(name, entry));
    return all;
  }

 private:
  bool ReachesVolumes(const std::string& name) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return !plugins_.contains(name) || plugins_.at(name).reaches_volumes;
  }
  std::function<void()> TakeHook() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return std::exchange(before_wait_, nullptr);
  }

  struct Entry {
    std::shared_ptr<FakeCsiPlugin> plugin;
    std::shared_ptr<manager::CsiChannel> channel;
    bool node_healthy = true, controller_healthy = true;
    bool answered = true, node_answered = true, reaches_volumes = true;
    std::string words;
  };

  static bool IsHealthy(const Entry& entry, manager::PluginType type) {
    if (!entry.answered) return false;
    return type == manager::PluginType::kNode ? entry.node_healthy
                                              : entry.controller_healthy && entry.plugin->features().controller;
  }

  static manager::InstanceInfo Instance(const std::string& name, manager::PluginType type) {
    manager::InstanceInfo instance;
    instance.type = type;
    instance.name = name;
    instance.instance_id = name + "-1";
    instance.socket_path = "/fake/" + name + "/csi.sock";
    return instance;
  }

  static manager::Fingerprint Look(const Entry& entry, manager::PluginType type) {
    const FakeCsiFeatures features = entry.plugin->features();
    manager::Fingerprint found;
    found.healthy = IsHealthy(entry, type);
    found.problem = found.healthy ? "" : entry.words;
    found.complete = entry.answered && (type != manager::PluginType::kNode || entry.node_answered);
    found.driver_name = features.name;
    found.vendor_version = features.version;
    found.node_id = type == manager::PluginType::kNode ? features.node_id : "";
    found.topology = features.topology;
    found.max_volumes = features.max_volumes;
    manager::PluginTraits& traits = found.traits;
    traits.controller_service = features.controller;
    traits.topology = !features.topology.empty();
    traits.expands_online = features.expands;
    traits.stages = features.stages;
    traits.node_expands = features.node_expands;
    traits.node_stats = true;
    traits.node_single_writer = features.single_writer;
    traits.creates = traits.lists = features.controller;
    traits.publishes = features.controller && features.attaches;
    traits.snapshots = traits.lists_snapshots = features.controller && features.snapshots;
    traits.clones = features.controller && features.clones;
    traits.controller_expands = features.controller && features.expands;
    traits.controller_single_writer = features.controller && features.single_writer;
    return found;
  }

  static manager::PluginStatus Status(const std::string& name, const Entry& entry) {
    manager::PluginStatus status;
    status.name = name;
    status.controller_required = entry.answered && entry.plugin->features().controller;
    status.nodes = {IsHealthy(entry, manager::PluginType::kNode) ? 1 : 0, 1};
    status.controllers = {IsHealthy(entry, manager::PluginType::kController) ? 1 : 0,
                          status.controller_required ? 1 : 0};
    for (const manager::PluginType type : {manager::PluginType::kNode, manager::PluginType::kController}) {
      if (type == manager::PluginType::kController && !status.controller_required) continue;
      status.instances.push_back({Instance(name, type), true, Look(entry, type)});
    }
    return status;
  }

  absl::StatusOr<manager::ReadyPlugin> Wait(const std::string& name, manager::PluginType type,
                                            Clock::time_point until) {
    std::unique_lock<std::mutex> lock(mutex_);
    const auto is_there = [&] { return plugins_.contains(name) && IsHealthy(plugins_.at(name), type); };
    if (changed_.wait_until(lock, until, is_there)) {
      const Entry& entry = plugins_.at(name);
      return manager::ReadyPlugin{Instance(name, type), Look(entry, type), entry.channel};
    }
    return Unavailable("plugin {}: {}", Quote(name), plugins_.contains(name) ? plugins_.at(name).words : "not there");
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, Entry> plugins_;
  std::function<void()> before_wait_;
};

}  // namespace mooring::testing
