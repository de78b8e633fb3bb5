#include "manager/plugins/registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "manager/records/names.h"
#include "manager/records/record_codec.h"
#include "manager/state/keys.h"

namespace mooring::manager {
namespace {

absl::Status Closed() { return absl::CancelledError("the registry is closed: the manager is stopping"); }

std::string Describe(PluginType type, const std::string& name) {
  return fmt::format("plugin {} ({})", Quote(name), ToString(type));
}

auto FindById(std::vector<InstanceInfo>& instances, const std::string& instance_id) {
  return std::find_if(instances.begin(), instances.end(),
                      [&](const InstanceInfo& each) { return each.instance_id == instance_id; });
}

absl::Status CheckInstance(const InstanceInfo& instance) {
  if (instance.name.empty()) return InvalidArgument("register a plugin: its name is missing");
  if (instance.instance_id.empty()) {
    return InvalidArgument("register plugin {}: the instance id is missing", Quote(instance.name));
  }
  if (instance.socket_path.empty()) {
    return InvalidArgument("register plugin {}: its socket is missing", Quote(instance.name));
  }
  return absl::OkStatus();
}

}  // namespace

Registry::Registry(State& state, std::string host) : state_(state), host_(std::move(host)) {}

Registry::~Registry() { Close(); }

absl::StatusOr<std::unique_ptr<Registry>> Registry::Open(State& state, const std::string& host) {
  std::unique_ptr<Registry> registry(new Registry(state, host));
  MOORING_ASSIGN_OR_RETURN(const std::optional<KeyValue> stored, state.Get(RegistryStateKey(host)));
  if (!stored) return registry;
  v1::StoredRegistry message;
  if (!message.ParseFromString(stored->value)) {
    log::Warning("the stored plugin registry is damaged: instances are registered again when they answer",
                 {{"host", host}});
    return registry;
  }
  for (const v1::Instance& each : message.instances()) {
    absl::StatusOr<InstanceInfo> instance = FromProto(each);
    if (!instance.ok()) {
      log::Warning("an instance in the stored plugin registry is damaged, and is left out",
                   {{"plugin", each.name()}, {"cause", Message(instance.status())}});
      continue;
    }
    registry->plugins_[instance->type][instance->name].push_back(*std::move(instance));
  }
  return registry;
}

absl::Status Registry::Persist(const ByType& plugins) {
  v1::StoredRegistry message;
  for (const auto& [type, names] : plugins) {
    for (const auto& [name, instances] : names) {
      for (const InstanceInfo& instance : instances) *message.add_instances() = ToProto(instance);
    }
  }
  Transaction transaction;
  transaction.puts.push_back({RegistryStateKey(host_), message.SerializeAsString()});
  return state_.Commit(transaction).status();
}

void Registry::Notify(const RegistryEvent& event) {
  for (Subscription* const each : subscriptions_) {
    if (each->type_ != event.instance.type) continue;
    each->queue_.push_back(event);
    each->changed_.notify_all();
  }
}

absl::Status Registry::Register(const InstanceInfo& instance) {
  MOORING_RETURN_IF_ERROR(CheckInstance(instance));
  const std::lock_guard<std::mutex> lock(mutex_);
  if (closed_) return Closed();
  ByType next = plugins_;
  std::vector<InstanceInfo>& instances = next[instance.type][instance.name];
  const auto known = FindById(instances, instance.instance_id);
  if (known != instances.end()) {
    if (*known == instance) return absl::OkStatus();
    instances.erase(known);
  }
  instances.insert(instances.begin(), instance);
  return Commit(std::move(next), {RegistryEvent::Kind::kRegistered, instance});
}

absl::Status Registry::Deregister(PluginType type, const std::string& name, const std::string& instance_id) {
  if (name.empty() || instance_id.empty()) {
    return InvalidArgument("deregister a plugin: its name or the instance id is missing");
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  if (closed_) return Closed();
  ByType next = plugins_;
  const auto names = next.find(type);
  if (names == next.end()) {
    return NotFound("deregister {}: no plugin of that type was registered", Describe(type, name));
  }
  const auto instances = names->second.find(name);
  if (instances == names->second.end()) return absl::OkStatus();
  const auto known = FindById(instances->second, instance_id);
  if (known == instances->second.end()) return absl::OkStatus();
  const InstanceInfo gone = *known;
  instances->second.erase(known);
  if (instances->second.empty()) names->second.erase(instances);
  return Commit(std::move(next), {RegistryEvent::Kind::kDeregistered, gone});
}

absl::Status Registry::Commit(ByType next, const RegistryEvent& event) {
  MOORING_RETURN_IF_ERROR(Annotate(Persist(next), "store the registry of plugins"));
  plugins_ = std::move(next);
  Notify(event);
  return absl::OkStatus();
}

const std::vector<InstanceInfo>& Registry::Of(PluginType type, const std::string& name) const {
  static const std::vector<InstanceInfo> none;
  const auto names = plugins_.find(type);
  if (names == plugins_.end()) return none;
  const auto instances = names->second.find(name);
  return instances == names->second.end() ? none : instances->second;
}

std::vector<InstanceInfo> Registry::List(PluginType type) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<InstanceInfo> fronts;
  const auto names = plugins_.find(type);
  if (names == plugins_.end()) return fronts;
  for (const auto& [name, instances] : names->second) fronts.push_back(instances.front());
  return fronts;
}

std::optional<InstanceInfo> Registry::Get(PluginType type, const std::string& name) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::vector<InstanceInfo>& instances = Of(type, name);
  return instances.empty() ? std::nullopt : std::optional(instances.front());
}

std::vector<InstanceInfo> Registry::Instances(PluginType type, const std::string& name) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return Of(type, name);
}

std::optional<InstanceInfo> Registry::FindInstance(const std::string& instance_id, PluginType type) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto names = plugins_.find(type);
  if (names == plugins_.end()) return std::nullopt;
  for (const auto& [name, instances] : names->second) {
    for (const InstanceInfo& instance : instances) {
      if (instance.instance_id == instance_id) return instance;
    }
  }
  return std::nullopt;
}

void Registry::Close() {
  const std::lock_guard<std::mutex> lock(mutex_);
  closed_ = true;
  for (Subscription* const each : subscriptions_) each->changed_.notify_all();
}

Registry::Subscription::Subscription(Registry& registry, PluginType type) : registry_(registry), type_(type) {
  const std::lock_guard<std::mutex> lock(registry_.mutex_);
  registry_.subscriptions_.push_back(this);
}

Registry::Subscription::~Subscription() {
  const std::lock_guard<std::mutex> lock(registry_.mutex_);
  std::erase(registry_.subscriptions_, this);
}

// Events from before the registry was closed are still given.
absl::StatusOr<std::optional<RegistryEvent>> Registry::Subscription::Next(Clock::time_point until) {
  std::unique_lock<std::mutex> lock(registry_.mutex_);
  changed_.wait_until(lock, until, [this] { return stopped_ || registry_.closed_ || !queue_.empty(); });
  if (stopped_) return absl::CancelledError("the subscription was stopped");
  if (!queue_.empty()) {
    std::optional<RegistryEvent> event = std::move(queue_.front());
    queue_.pop_front();
    return event;
  }
  if (registry_.closed_) return Closed();
  return std::optional<RegistryEvent>();
}

void Registry::Subscription::Stop() {
  const std::lock_guard<std::mutex> lock(registry_.mutex_);
  stopped_ = true;
  changed_.notify_all();
}

}  // namespace mooring::manager
