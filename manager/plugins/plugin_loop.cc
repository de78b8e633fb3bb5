#include "manager/plugins/plugin_loop.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/status.h"
#include "base/text/quote.h"
#include "manager/records/names.h"

namespace mooring::manager {
namespace {

// WaitUntilInspected and InUse poll the registry, because a change of it wakes only the loop.
constexpr std::chrono::milliseconds kPollInterval{50};

// The loop follows an event of the registry at once. This limits the wait for it when the machine is busy.
constexpr std::chrono::seconds kTimeToFollow{1};

// Whether all instances are inspected, except node instances behind the newest, which have no InstanceManager.
bool AreInspected(const PluginStatus& status) {
  return !status.instances.empty() &&
         std::all_of(status.instances.begin(), status.instances.end(), [](const InstanceStatus& each) {
           const bool in_use = each.front || each.instance.type == PluginType::kController;
           return !in_use || each.fingerprint.at != Time();
         });
}

std::string_view RoleName(PluginType type) { return type == PluginType::kNode ? "node" : "controller"; }

}  // namespace

PluginLoop::PluginLoop(Registry& registry, Events& events, CsiConnector connect, AskExpected expected,
                       Settings settings)
    : registry_(registry),
      events_(events),
      connect_(std::move(connect)),
      expected_(std::move(expected)),
      settings_(settings) {
  for (const PluginType type : kPluginTypes) {
    subscriptions_[type] = std::make_unique<Registry::Subscription>(registry, type);
    for (const InstanceInfo& front : registry.List(type)) {
      for (const InstanceInfo& each : registry.Instances(type, front.name)) left_.insert(KeyOf(each));
    }
  }
  for (const PluginType type : kPluginTypes) threads_.emplace_back([this, type] { Run(type); });
}

PluginLoop::~PluginLoop() { Stop(); }

void PluginLoop::BeginStop() {
  const std::lock_guard<std::mutex> lock(mutex_);
  waits_end_ = true;
  changed_.notify_all();
}

void PluginLoop::Stop() {
  BeginStop();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  for (const auto& [type, subscription] : subscriptions_) subscription->Stop();
  threads_.clear();  // waits for them
  std::vector<Managed> all;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& [type, names] : managers_) {
      for (const auto& [name, of_name] : names) all.insert(all.end(), of_name.begin(), of_name.end());
    }
    managers_.clear();
  }
  StopInBackground(std::move(all));
  for (const std::future<void>& stop : stops_) stop.wait();
}

void PluginLoop::Run(PluginType type) {
  Resync(type);
  Clock::time_point next = Clock::now() + settings_.resync;
  for (;;) {
    const absl::StatusOr<std::optional<RegistryEvent>> event = subscriptions_.at(type)->Next(next);
    if (!event.ok()) return;
    if (*event) {
      Handle(**event);
    } else {
      Resync(type);
      next = Clock::now() + settings_.resync;
    }
  }
}

void PluginLoop::Handle(const RegistryEvent& event) {
  const bool is_new = event.kind == RegistryEvent::Kind::kRegistered;
  events_.Add(
      {.kind = is_new ? "registered" : "deregistered",
       .plugin = event.instance.name,
       .instance = event.instance.instance_id,
       .text = fmt::format("{} instance at {}", RoleName(event.instance.type), Quote(event.instance.socket_path))});
  Ensure(event.instance.type, event.instance.name);
}

void PluginLoop::Resync(PluginType type) {
  std::set<std::string> names;
  for (const InstanceInfo& front : registry_.List(type)) names.insert(front.name);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& [name, managers_of_it] : managers_[type]) names.insert(name);
  }
  for (const std::string& name : names) Ensure(type, name);
}

// Follows the registry as it is now, whatever the event was. So the end of one instance never stops another.
void PluginLoop::Ensure(PluginType type, const std::string& name) {
  StopInBackground(Replace(type, name, Wanted(type, name)));
}

std::vector<InstanceInfo> PluginLoop::Wanted(PluginType type, const std::string& name) const {
  std::vector<InstanceInfo> wanted = registry_.Instances(type, name);
  if (type == PluginType::kNode && wanted.size() > 1) wanted.resize(1);
  return wanted;
}

// Gives the instances that have to be stopped. The new ones take over before that, because the stop of a plugin that
// hangs takes time.
std::vector<PluginLoop::Managed> PluginLoop::Replace(PluginType type, const std::string& name,
                                                     const std::vector<InstanceInfo>& wanted) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (stopping_) return {};
  if (type == PluginType::kNode) replaced_nodes_[name] = Count(type, name);
  std::vector<Managed> before = std::exchange(managers_[type][name], {});
  for (const InstanceInfo& instance : wanted) {
    const auto same =
        std::find_if(before.begin(), before.end(), [&](const Managed& each) { return each->instance() == instance; });
    managers_[type][name].push_back(same == before.end() ? Start(instance) : *same);
    if (same != before.end()) before.erase(same);
  }
  if (wanted.empty()) {
    managers_[type].erase(name);
    if (type == PluginType::kNode) replaced_nodes_.erase(name);
  }
  for (const Managed& gone : before) left_.erase(KeyOf(gone->instance()));
  changed_.notify_all();
  return before;
}

PluginLoop::Managed PluginLoop::Start(const InstanceInfo& instance) {
  return std::make_shared<InstanceManager>(instance, connect_(instance.socket_path, instance.name),
                                           settings_.last_inspection,
                                           [this](const InstanceInfo& of, const Fingerprint& found,
                                                  const Fingerprint& before) { Changed(of, found, before); });
}

// The last inspection of an instance may take a second, which must not delay the loop.
void PluginLoop::StopInBackground(std::vector<Managed> instances) {
  if (instances.empty()) return;
  for (const Managed& each : instances) each->BeginStop();
  const std::lock_guard<std::mutex> lock(mutex_);
  std::erase_if(stops_, [](const std::future<void>& stop) {
    return stop.wait_for(Clock::duration::zero()) == std::future_status::ready;
  });
  for (Managed& each : instances) {  // in parallel: all have the same second
    stops_.push_back(std::async(std::launch::async, [instance = std::move(each)]() mutable {
      instance->Stop();
      instance.reset();  // closes the channel now, not when the future goes
    }));
  }
}

void PluginLoop::Changed(const InstanceInfo& instance, const Fingerprint& found, const Fingerprint& before) {
  const std::string text = found.healthy
                               ? fmt::format("{} instance is healthy: {} {}", RoleName(instance.type),
                                             Quote(found.driver_name), Quote(found.vendor_version))
                               : fmt::format("{} instance is not healthy: {}", RoleName(instance.type), found.problem);
  const bool is_first = before.at == Time();
  std::vector<std::function<void(const PluginHealth&)>> to_call;
  PluginHealth health;
  bool bad = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    changed_.notify_all();
    const bool known = FindManager(instance) != nullptr;  // false: the instance is being stopped
    bad = !found.healthy && known;
    const bool was_left = known && left_.erase(KeyOf(instance)) > 0;
    health = {instance.name, HasHealthy(instance.name), !was_left};
    if (!stopping_ && known && (is_first || before.healthy != found.healthy)) to_call = callbacks_;
  }
  events_.Add({.bad = bad, .kind = "health", .plugin = instance.name, .instance = instance.instance_id, .text = text});
  for (const auto& callback : to_call) callback(health);
}

const std::vector<PluginLoop::Managed>& PluginLoop::Of(PluginType type, const std::string& name) const {
  static const std::vector<Managed> none;
  const auto names = managers_.find(type);
  if (names == managers_.end()) return none;
  const auto found = names->second.find(name);
  return found == names->second.end() ? none : found->second;
}

const InstanceManager* PluginLoop::FindManager(const InstanceInfo& instance) const {
  for (const Managed& each : Of(instance.type, instance.name)) {
    if (each->instance() == instance) return each.get();
  }
  return nullptr;
}

std::vector<PluginLoop::Managed> PluginLoop::InUse(const std::string& plugin) {
  const Clock::time_point until = Clock::now() + kTimeToFollow;
  for (;;) {
    std::vector<InstanceInfo> wanted;  // read without mutex_: the registry may be waiting for the disk
    for (const PluginType type : kPluginTypes) {
      for (InstanceInfo& each : Wanted(type, plugin)) wanted.push_back(std::move(each));
    }
    std::unique_lock<std::mutex> lock(mutex_);
    std::vector<Managed> now;
    for (const PluginType type : kPluginTypes) now.insert(now.end(), Of(type, plugin).begin(), Of(type, plugin).end());
    const bool followed =
        std::equal(now.begin(), now.end(), wanted.begin(), wanted.end(),
                   [](const Managed& each, const InstanceInfo& info) { return each->instance() == info; });
    if (followed || stopping_ || Clock::now() >= until) return now;
    changed_.wait_until(lock, std::min(until, Clock::now() + kPollInterval));
  }
}

bool PluginLoop::HasHealthy(const std::string& name) const {
  for (const PluginType type : kPluginTypes) {
    for (const Managed& each : Of(type, name)) {
      if (each->fingerprint().healthy) return true;
    }
  }
  return false;
}

// The newest node instance takes the place of the previous one, and keeps its health until the first inspection.
RoleCount PluginLoop::Count(PluginType type, const std::string& name) const {
  RoleCount count;
  for (const Managed& each : Of(type, name)) {
    const Fingerprint found = each->fingerprint();
    if (type == PluginType::kNode && found.at == Time()) return replaced_nodes_.at(name);
    if (found.healthy) ++count.healthy;
    if (found.complete) ++count.expected;
  }
  const auto replaced = replaced_nodes_.find(name);
  const bool is_successor = type == PluginType::kNode && replaced != replaced_nodes_.end();
  if (is_successor) count.expected = std::max(count.expected, replaced->second.expected);
  return count;
}

PluginLoop::Managed PluginLoop::NextHealthyController(const std::string& name) {
  std::vector<Managed> healthy = Of(PluginType::kController, name);
  std::erase_if(healthy, [](const Managed& each) { return !each->fingerprint().healthy; });
  return healthy.empty() ? nullptr : healthy[turns_[name]++ % healthy.size()];
}

std::string PluginLoop::LastErrors(PluginType type, const std::string& name) const {
  std::string errors;
  for (const Managed& each : Of(type, name))
    errors += (errors.empty() ? "" : "; ") + LastErrorOf(each->instance(), each->fingerprint());
  return errors.empty() ? fmt::format("no {} instance of it is registered", RoleName(type)) : errors;
}

absl::StatusOr<ReadyPlugin> PluginLoop::Wait(PluginType type, const std::string& name, Clock::time_point until,
                                             const std::function<Managed()>& find) {
  std::unique_lock<std::mutex> lock(mutex_);
  Managed found;
  changed_.wait_until(lock, until, [&] { return waits_end_ || (found = find()) != nullptr; });
  if (waits_end_) return Stopping();
  if (found != nullptr) return found->Now();
  return Unavailable("plugin {} has no {} instance that is ready: {}", Quote(name), RoleName(type),
                     LastErrors(type, name));
}

absl::StatusOr<ReadyPlugin> PluginLoop::WaitForNode(const std::string& plugin, Clock::time_point until) {
  return Wait(PluginType::kNode, plugin, until, [&]() -> Managed {
    const std::vector<Managed>& found = Of(PluginType::kNode, plugin);
    return found.empty() || !found.front()->fingerprint().complete ? nullptr : found.front();
  });
}

absl::StatusOr<ReadyPlugin> PluginLoop::PickController(const ControllerFor& call, Clock::time_point until) {
  return Wait(PluginType::kController, call.plugin, until, [&] { return NextHealthyController(call.plugin); });
}

// Only the registry knows the node instances behind the front.
RoleCount PluginLoop::Describe(PluginType type, PluginStatus& status) const {
  const std::vector<InstanceInfo> instances = registry_.Instances(type, status.name);
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const InstanceInfo& instance : instances) {
    InstanceStatus one{.instance = instance, .front = instance == instances.front(), .fingerprint = {}};
    const InstanceManager* const manager = FindManager(instance);
    if (manager != nullptr) {
      one.fingerprint = manager->fingerprint();
    } else {
      one.fingerprint.problem = one.front ? "not inspected yet" : "not in use: a newer instance is";
    }
    status.controller_required |= one.fingerprint.traits.controller_service;
    status.instances.push_back(std::move(one));
  }
  // The loop may not have followed the end of the last instance yet.
  return instances.empty() ? RoleCount() : Count(type, status.name);
}

absl::StatusOr<PluginStatus> PluginLoop::Find(const std::string& plugin) {
  PluginStatus status;
  status.name = plugin;
  status.nodes = Describe(PluginType::kNode, status);
  status.controllers = Describe(PluginType::kController, status);
  for (const Expected& each : expected_()) {
    if (each.plugin != plugin) continue;
    status.nodes.expected = std::max(status.nodes.expected, each.nodes);
    status.controllers.expected = std::max(status.controllers.expected, each.controllers);
  }
  if (status.instances.empty() && status.nodes.expected == 0 && status.controllers.expected == 0) {
    return NotFound("plugin {} is neither registered nor declared", Quote(plugin));
  }
  return status;
}

absl::StatusOr<PluginStatus> PluginLoop::WaitUntilInspected(const std::string& plugin, Clock::time_point until) {
  for (;;) {
    MOORING_ASSIGN_OR_RETURN(PluginStatus status, Find(plugin));
    if (AreInspected(status)) return status;
    if (Clock::now() >= until) {
      return absl::DeadlineExceededError(fmt::format(
          "the health of plugin {} was not known in time; run 'mooring plugin status {}'", Quote(plugin), plugin));
    }
    std::unique_lock<std::mutex> lock(mutex_);
    if (waits_end_) return Stopping();
    changed_.wait_until(lock, std::min(until, Clock::now() + kPollInterval));
  }
}

std::vector<PluginStatus> PluginLoop::List() {
  std::set<std::string> names;
  for (const Expected& each : expected_()) names.insert(each.plugin);
  for (const PluginType type : kPluginTypes) {
    for (const InstanceInfo& front : registry_.List(type)) names.insert(front.name);
  }
  std::vector<PluginStatus> all;
  for (const std::string& name : names) {
    absl::StatusOr<PluginStatus> status = Find(name);
    if (status.ok()) all.push_back(*std::move(status));
  }
  return all;
}

void PluginLoop::OnHealth(std::function<void(const PluginHealth& health)> callback) {
  const std::lock_guard<std::mutex> lock(mutex_);
  callbacks_.push_back(std::move(callback));
}

}  // namespace mooring::manager
