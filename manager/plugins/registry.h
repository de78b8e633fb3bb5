// The registry of the plugin instances that run, newest first. It does not know their health.
//
// No call waits for a subscriber or for a plugin. A change is stored before its event is sent.
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "manager/csi/csi_channel.h"
#include "manager/records/records.h"
#include "manager/state/state.h"

namespace mooring::manager {

struct RegistryEvent {
  enum class Kind { kRegistered, kDeregistered };
  Kind kind = Kind::kRegistered;
  InstanceInfo instance;
};

class Registry {
 public:
  // Receives every event of one type, in order. The registry outlives it.
  class Subscription {
   public:
    Subscription(Registry& registry, PluginType type);
    ~Subscription();
    Subscription(const Subscription&) = delete;
    Subscription& operator=(const Subscription&) = delete;

    // The next event; none: `until` has passed. CANCELLED: the registry is closed, or Stop was called.
    absl::StatusOr<std::optional<RegistryEvent>> Next(Clock::time_point until);
    void Stop();  // from any thread

   private:
    friend class Registry;
    Registry& registry_;
    const PluginType type_;
    std::deque<RegistryEvent> queue_;  // under the registry's mutex, as is the next
    bool stopped_ = false;
    std::condition_variable changed_;
  };

  // Restores the instances of `host` from the state, in their order.
  static absl::StatusOr<std::unique_ptr<Registry>> Open(State& state, const std::string& host);
  ~Registry();

  // Puts the instance at the front, and sends an event. The same instance again, with all fields equal, changes
  // nothing. INVALID_ARGUMENT: name, instance id or socket is missing.
  absl::Status Register(const InstanceInfo& instance);

  // NOT_FOUND: no plugin of that type was ever registered. An unknown name or instance id changes nothing.
  absl::Status Deregister(PluginType type, const std::string& name, const std::string& instance_id);

  std::vector<InstanceInfo> List(PluginType type) const;                                // the fronts, by name
  std::optional<InstanceInfo> Get(PluginType type, const std::string& name) const;      // the front
  std::vector<InstanceInfo> Instances(PluginType type, const std::string& name) const;  // newest first
  std::optional<InstanceInfo> FindInstance(const std::string& instance_id, PluginType type) const;

  void Close();  // ends subscriptions

 private:
  using ByName = std::map<std::string, std::vector<InstanceInfo>>;  // newest first
  using ByType = std::map<PluginType, ByName>;

  Registry(State& state, std::string host);
  // All under mutex_.
  absl::Status Commit(ByType next, const RegistryEvent& event);  // stores, then takes over, then notifies
  absl::Status Persist(const ByType& plugins);
  void Notify(const RegistryEvent& event);
  const std::vector<InstanceInfo>& Of(PluginType type, const std::string& name) const;

  State& state_;
  const std::string host_;
  mutable std::mutex mutex_;
  ByType plugins_;
  std::vector<Subscription*> subscriptions_;
  bool closed_ = false;
};

}  // namespace mooring::manager
