// The plugins of this host: their instances, with the health of each and a channel for calls to it.
//
//   supervisor ── Serve, Retire ──▶ PluginSet ──▶ hosts/<host>/registry, stored before the call returns
//   PluginWatch ── Store ─────────▶     │         name ─▶ instances in each role, newest first
//   callers ◀── WaitForNode, PickController, Find, List, OnHealth
//
// Node calls go to the newest instance of a plugin. The node instances behind it are not in use: they have no channel,
// and nobody inspects them. Controller calls are spread over all healthy instances. An instance that is retired or no
// longer in use is inspected once more, as work of the WorkQueue. Nothing here waits for a plugin except the calls that
// say so.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "manager/plugins/plugin_directory.h"
#include "manager/plugins/plugin_roles.h"
#include "manager/records/events.h"
#include "manager/state/state.h"
#include "manager/work/work_queue.h"

namespace mooring::manager {

struct PluginHealth {
  std::string plugin;
  bool healthy = false;  // the plugin has a healthy instance now
  bool changed = false;  // false: only the first inspection of an instance that an earlier manager left
};

class PluginSet final : public PluginDirectory {
 public:
  struct InUse {
    InstanceInfo instance;
    std::uint64_t use;  // a number that the instance gets each time that it comes into use
    Fingerprint known;
  };

  static constexpr Clock::duration kLastInspection = std::chrono::seconds(1);

  // Restores the instances of `host` from the state, in their order. The references outlive the set. A stopped instance
  // gets `last_inspection` to answer once more.
  static absl::StatusOr<std::unique_ptr<PluginSet>> Open(State& state, const std::string& host, Events& events,
                                                         CsiConnector connect, WorkQueue& work,
                                                         Clock::duration last_inspection = kLastInspection);
  ~PluginSet() override { Stop(); }

  // Makes the instance the newest of its plugin, in exactly these roles. `instance.type` is ignored. In a role in which
  // it is served already, with all fields equal, only its owner changes. INVALID_ARGUMENT: name, instance id or socket
  // is missing.
  absl::Status Serve(const InstanceInfo& instance, const std::vector<PluginType>& roles, InstanceOwner owner);

  // Gives the instance to `owner`, if it is served in any role. False: it is not.
  bool TakeOver(const std::string& plugin, const std::string& instance_id, InstanceOwner owner);

  // Removes the instance from all roles. Does nothing if it is not there, or has another owner by now. Anybody may
  // retire an instance of an earlier manager.
  absl::Status Retire(const std::string& plugin, const std::string& instance_id, InstanceOwner owner);

  // A declared plugin is expected while it is away: once in each of these roles, or as a node if none is known yet.
  void Declare(const std::string& plugin, const std::vector<PluginType>& roles);
  void Undeclare(const std::string& plugin);

  // For the watch over the plugin. Both do nothing if that use of the instance is over. Store does nothing either if
  // `known` is not the last fingerprint any more: a Probe that failed meanwhile is newer.
  std::vector<InUse> ListInUse(const std::string& plugin) const;
  void Store(const InUse& inspected, const Fingerprint& found);
  void StoreFailure(const InUse& inspected, const absl::Status& probed);

  absl::StatusOr<ReadyPlugin> WaitForNode(const std::string& plugin, Clock::time_point until) override;
  absl::StatusOr<ReadyPlugin> PickController(const ControllerFor& call, Clock::time_point until) override;
  absl::StatusOr<PluginStatus> Find(const std::string& plugin) override;
  std::vector<PluginStatus> List() override;

  // Like Find, but waits until each instance in use has been inspected. DEADLINE_EXCEEDED: not by `until`. CANCELLED:
  // the manager is stopping.
  absl::StatusOr<PluginStatus> WaitUntilInspected(const std::string& plugin, Clock::time_point until);

  // `callback` is called after the first inspection of an instance, and whenever its health changes: from the thread
  // that inspects it, with no lock held. Calls to the plugin belong to another thread.
  void OnHealth(std::function<void(const PluginHealth& health)> callback);

  void BeginStop();  // calls that wait for a plugin, now and later, get CANCELLED
  void Stop();       // the same, and waits for the last inspections that have begun

 private:
  struct Declared {
    int nodes = 0, controllers = 0;  // that are expected
  };

  PluginSet(State& state, std::string host, Events& events, CsiConnector connect, WorkQueue& work,
            Clock::duration last_inspection);

  absl::Status Change(const std::function<void(PluginRoles& next)>& edit);
  void Replace(PluginRoles& next);
  void AddEvents(const char* kind, const PluginInstances& instances);

  void StoreIf(const InUse& inspected, const std::function<std::optional<Fingerprint>(const Fingerprint& now)>& find);
  void InspectOnceMore(const std::shared_ptr<PluginInstance>& instance);
  void AddHealthEvent(const InstanceInfo& instance, const Fingerprint& found, bool bad);

  // Called under mutex_.
  PluginInstance* FindUse(const InUse& inspected) const;
  std::shared_ptr<PluginInstance> NextHealthyController(const std::string& name);
  absl::StatusOr<PluginStatus> Describe(const std::string& name) const;
  RoleCount DescribeRole(PluginType type, PluginStatus& status) const;

  absl::StatusOr<ReadyPlugin> Wait(PluginType type, const std::string& name, Clock::time_point until,
                                   const std::function<std::shared_ptr<PluginInstance>()>& find);

  State& state_;
  const std::string host_;
  Events& events_;
  const CsiConnector connect_;
  const Clock::duration last_inspection_;

  std::mutex change_mutex_;     // held while a change is stored; nobody who looks for a plugin waits for it
  PluginRoles roles_;           // changed under both mutexes
  std::uint64_t last_use_ = 0;  // under change_mutex_

  std::mutex report_mutex_;  // keeps the events about health in the order of its changes

  mutable std::mutex mutex_;         // guards what instances contain, and all below
  std::condition_variable changed_;  // instances, the health of one, or declarations
  std::map<std::string, Declared> declared_;
  std::map<std::string, std::uint64_t> turns_;  // of controllers, by plugin
  std::vector<std::function<void(const PluginHealth&)>> callbacks_;
  bool stopping_ = false;

  WorkKind last_inspections_;
};

}  // namespace mooring::manager
