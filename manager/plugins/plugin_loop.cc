#include "manager/plugins/plugin_loop.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <future>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "base/status.h"
#include "base/text/quote.h"
#include "manager/records/names.h"

namespace mooring::manager {
namespace {

using Managed = std::shared_ptr<InstanceManager>;

constexpr char kHere[] = "";  // the loop knows only the node that it runs on

// WaitUntilInspected polls the registry, because a change of it wakes only the loop.
constexpr std::chrono::milliseconds kPollInterval{50};

// The loop follows an event of the registry at once. This limits the wait for it when the machine is busy.
constexpr std::chrono::seconds kTimeToFollow{1};

using InstanceKey = std::pair<PluginType, std::string>;

InstanceKey KeyOf(const InstanceInfo& instance) { return {instance.type, instance.instance_id}; }

// Whether all instances are inspected, except node instances behind the newest, which have no InstanceManager.
bool AreInspected(const PluginStatus& status) {
  return !status.instances.empty() &&
         std::all_of(status.instances.begin(), status.instances.end(), [](const InstanceStatus& each) {
           const bool in_use = each.front || each.instance.type == PluginType::kController;
           return !in_use || each.fingerprint.at != Time();
         });
}

std::string_view RoleName(PluginType type) {
  switch (type) {
    case PluginType::kNode:
      return "node";
    case PluginType::kController:
      return "controller";
  }
  return "";
}

}  // namespace

struct PluginLoop::Impl {
  Impl(Registry& in_registry, Events& in_events, CsiConnector in_connect, AskExpected in_expected, Settings in_settings)
      : registry(in_registry),
        events(in_events),
        connect(std::move(in_connect)),
        expected(std::move(in_expected)),
        settings(in_settings) {}

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

  // Called under mutex.
  const std::vector<Managed>& Of(PluginType type, const std::string& name) const;
  const InstanceManager* Find(const InstanceInfo& instance) const;
  bool HasFollowed(const std::string& name) const;
  bool HasHealthy(const std::string& name) const;
  Managed NextHealthyController(const std::string& name);
  std::string LastErrors(PluginType type, const std::string& name) const;
  absl::StatusOr<ReadyPlugin> Wait(PluginType type, const std::string& name, Clock::time_point until,
                                   const std::function<Managed()>& find);
  void Describe(PluginType type, PluginStatus& status, PluginCounts& counted) const;
  PluginCounts CountsOf(const std::string& name) const;

  Registry& registry;
  Events& events;
  const CsiConnector connect;
  const AskExpected expected;
  const Settings settings;

  mutable std::mutex mutex;
  std::condition_variable changed;                                             // instances, or the health of one
  std::map<PluginType, std::map<std::string, std::vector<Managed>>> managers;  // newest first
  std::map<std::string, PluginCounts> counts;                                  // by plugin
  std::map<std::string, std::uint64_t> turns;                                  // of controllers, by plugin
  std::set<InstanceKey> left;            // instances of an earlier manager that this one has not inspected yet
  std::vector<std::future<void>> stops;  // of instances, in the background
  std::vector<std::function<void(const PluginHealth&)>> callbacks;
  bool waits_end = false;
  bool stopping = false;

  std::map<PluginType, std::unique_ptr<Registry::Subscription>> subscriptions;
  std::vector<std::thread> threads;
};

PluginLoop::PluginLoop(Registry& registry, Events& events, CsiConnector connect, AskExpected expected,
                       Settings settings)
    : impl_(std::make_unique<Impl>(registry, events, std::move(connect), std::move(expected), settings)) {
  for (const PluginType type : kPluginTypes) {
    impl_->subscriptions[type] = std::make_unique<Registry::Subscription>(registry, type);
    for (const InstanceInfo& front : registry.List(type)) {
      for (const InstanceInfo& each : registry.Instances(type, front.name)) impl_->left.insert(KeyOf(each));
    }
  }
  for (const PluginType type : kPluginTypes) impl_->threads.emplace_back([this, type] { impl_->Run(type); });
}

PluginLoop::~PluginLoop() { Stop(); }

void PluginLoop::BeginStop() {
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  impl_->waits_end = true;
  impl_->changed.notify_all();
}

void PluginLoop::Stop() {
  BeginStop();
  {
    const std::lock_guard<std::mutex> lock(impl_->mutex);
    impl_->stopping = true;
  }
  for (const auto& [type, subscription] : impl_->subscriptions) subscription->Stop();
  for (std::thread& thread : impl_->threads) thread.join();
  impl_->threads.clear();
  std::vector<Managed> all;
  {
    const std::lock_guard<std::mutex> lock(impl_->mutex);
    for (const auto& [type, names] : impl_->managers) {
      for (const auto& [name, managers] : names) all.insert(all.end(), managers.begin(), managers.end());
    }
    impl_->managers.clear();
  }
  impl_->StopInBackground(std::move(all));
  for (const std::future<void>& stop : impl_->stops) stop.wait();
}

void PluginLoop::Impl::Run(PluginType type) {
  Resync(type);
  Clock::time_point next = Clock::now() + settings.resync;
  for (;;) {
    const absl::StatusOr<std::optional<RegistryEvent>> event = subscriptions.at(type)->Next(next);
    if (!event.ok()) return;
    if (*event) {
      Handle(**event);
    } else {
      Resync(type);
      next = Clock::now() + settings.resync;
    }
  }
}

void PluginLoop::Impl::Handle(const RegistryEvent& event) {
  const bool is_new = event.kind == RegistryEvent::Kind::kRegistered;
  events.Add(
      {.kind = is_new ? "registered" : "deregistered",
       .plugin = event.instance.name,
       .instance = event.instance.instance_id,
       .volume = {},
       .allocation = {},
       .text = fmt::format("{} instance at {}", RoleName(event.instance.type), Quote(event.instance.socket_path))});
  Ensure(event.instance.type, event.instance.name);
}

void PluginLoop::Impl::Resync(PluginType type) {
  std::set<std::string> names;
  for (const InstanceInfo& front : registry.List(type)) names.insert(front.name);
  {
    const std::lock_guard<std::mutex> lock(mutex);
    for (const auto& [name, managers_of_it] : managers[type]) names.insert(name);
  }
  for (const std::string& name : names) Ensure(type, name);
}

// Follows the registry as it is now, whatever the event was. So the end of one instance never stops another.
void PluginLoop::Impl::Ensure(PluginType type, const std::string& name) {
  StopInBackground(Replace(type, name, Wanted(type, name)));
}

std::vector<InstanceInfo> PluginLoop::Impl::Wanted(PluginType type, const std::string& name) const {
  std::vector<InstanceInfo> wanted = registry.Instances(type, name);
  if (type == PluginType::kNode && wanted.size() > 1) wanted.resize(1);
  return wanted;
}

// Gives the instances that have to be stopped. The new ones take over before that, because the stop of a plugin that
// hangs takes time.
std::vector<Managed> PluginLoop::Impl::Replace(PluginType type, const std::string& name,
                                               const std::vector<InstanceInfo>& wanted) {
  const std::lock_guard<std::mutex> lock(mutex);
  if (stopping) return {};
  std::vector<Managed> before = std::exchange(managers[type][name], {});
  for (const InstanceInfo& instance : wanted) {
    const auto same =
        std::find_if(before.begin(), before.end(), [&](const Managed& each) { return each->instance() == instance; });
    managers[type][name].push_back(same == before.end() ? Start(instance) : *same);
    if (same != before.end()) before.erase(same);
  }
  if (wanted.empty()) managers[type].erase(name);
  // The newest node instance takes the place of the previous one, and keeps its health until the first inspection.
  const bool replaced = type == PluginType::kNode && !wanted.empty();
  for (const Managed& gone : before) {
    if (!replaced) counts[name].DeleteInstance(type, kHere, gone->instance().instance_id);
    left.erase(KeyOf(gone->instance()));
  }
  changed.notify_all();
  return before;
}

Managed PluginLoop::Impl::Start(const InstanceInfo& instance) {
  return std::make_shared<InstanceManager>(instance, connect(instance.socket_path, instance.name),
                                           settings.last_inspection,
                                           [this](const InstanceInfo& of, const Fingerprint& found,
                                                  const Fingerprint& before) { Changed(of, found, before); });
}

// The last inspection of an instance may take a second, which must not delay the loop.
void PluginLoop::Impl::StopInBackground(std::vector<Managed> instances) {
  if (instances.empty()) return;
  for (const Managed& each : instances) each->BeginStop();
  const std::lock_guard<std::mutex> lock(mutex);
  std::erase_if(stops, [](const std::future<void>& stop) {
    return stop.wait_for(Clock::duration::zero()) == std::future_status::ready;
  });
  stops.push_back(std::async(std::launch::async, [all = std::move(instances)]() mutable {
    for (const Managed& each : all) each->Stop();
    all.clear();  // closes the channels now, not when the future goes
  }));
}

void PluginLoop::Impl::Changed(const InstanceInfo& instance, const Fingerprint& found, const Fingerprint& before) {
  const std::string text = found.healthy
                               ? fmt::format("{} instance is healthy: {} {}", RoleName(instance.type),
                                             Quote(found.driver_name), Quote(found.vendor_version))
                               : fmt::format("{} instance is not healthy: {}", RoleName(instance.type), found.problem);
  const bool is_first = before.at == Time();
  std::vector<std::function<void(const PluginHealth&)>> to_call;
  PluginHealth health;
  bool bad = false;
  {
    const std::lock_guard<std::mutex> lock(mutex);
    changed.notify_all();
    const bool known = Find(instance) != nullptr;  // false: the instance is being stopped
    if (known) counts[instance.name].Add(instance.type, kHere, instance.instance_id, found.healthy);
    bad = !found.healthy && known;
    const bool was_left = known && left.erase(KeyOf(instance)) > 0;
    health = {instance.name, HasHealthy(instance.name), !was_left};
    if (!stopping && known && (is_first || before.healthy != found.healthy)) to_call = callbacks;
  }
  events.Add({.bad = bad,
              .kind = "health",
              .plugin = instance.name,
              .instance = instance.instance_id,
              .volume = {},
              .allocation = {},
              .text = text});
  for (const auto& callback : to_call) callback(health);
}

const std::vector<Managed>& PluginLoop::Impl::Of(PluginType type, const std::string& name) const {
  static const std::vector<Managed> none;
  const auto names = managers.find(type);
  if (names == managers.end()) return none;
  const auto found = names->second.find(name);
  return found == names->second.end() ? none : found->second;
}

const InstanceManager* PluginLoop::Impl::Find(const InstanceInfo& instance) const {
  for (const Managed& each : Of(instance.type, instance.name)) {
    if (each->instance() == instance) return each.get();
  }
  return nullptr;
}

bool PluginLoop::Impl::HasFollowed(const std::string& name) const {
  return std::all_of(kPluginTypes.begin(), kPluginTypes.end(), [&](PluginType type) {
    const std::vector<Managed>& now = Of(type, name);
    const std::vector<InstanceInfo> wanted = Wanted(type, name);
    return std::equal(now.begin(), now.end(), wanted.begin(), wanted.end(),
                      [](const Managed& each, const InstanceInfo& info) { return each->instance() == info; });
  });
}

std::vector<Managed> PluginLoop::InUse(const std::string& plugin) {
  std::unique_lock<std::mutex> lock(impl_->mutex);
  impl_->changed.wait_until(lock, Clock::now() + kTimeToFollow,
                            [&] { return impl_->stopping || impl_->HasFollowed(plugin); });
  std::vector<Managed> all;
  for (const PluginType type : kPluginTypes) {
    const std::vector<Managed>& of_type = impl_->Of(type, plugin);
    all.insert(all.end(), of_type.begin(), of_type.end());
  }
  return all;
}

bool PluginLoop::Impl::HasHealthy(const std::string& name) const {
  for (const PluginType type : kPluginTypes) {
    for (const Managed& each : Of(type, name)) {
      if (each->fingerprint().healthy) return true;
    }
  }
  return false;
}

Managed PluginLoop::Impl::NextHealthyController(const std::string& name) {
  std::vector<Managed> healthy = Of(PluginType::kController, name);
  std::erase_if(healthy, [](const Managed& each) { return !each->fingerprint().healthy; });
  return healthy.empty() ? nullptr : healthy[turns[name]++ % healthy.size()];
}

std::string PluginLoop::Impl::LastErrors(PluginType type, const std::string& name) const {
  std::string errors;
  for (const Managed& each : Of(type, name))
    errors += (errors.empty() ? "" : "; ") + LastErrorOf(each->instance(), each->fingerprint());
  return errors.empty() ? fmt::format("no {} instance of it is registered", RoleName(type)) : errors;
}

absl::StatusOr<ReadyPlugin> PluginLoop::Impl::Wait(PluginType type, const std::string& name, Clock::time_point until,
                                                   const std::function<Managed()>& find) {
  std::unique_lock<std::mutex> lock(mutex);
  Managed found;
  changed.wait_until(lock, until, [&] { return waits_end || (found = find()) != nullptr; });
  if (waits_end) return Stopping();
  if (found != nullptr) return found->Now();
  return Unavailable(fmt::format("plugin {} has no {} instance that is ready: {}", Quote(name), RoleName(type),
                                 LastErrors(type, name)));
}

absl::StatusOr<ReadyPlugin> PluginLoop::WaitForNode(const std::string& plugin, Clock::time_point until) {
  return impl_->Wait(PluginType::kNode, plugin, until, [&]() -> Managed {
    const std::vector<Managed>& found = impl_->Of(PluginType::kNode, plugin);
    return found.empty() || !found.front()->fingerprint().complete ? nullptr : found.front();
  });
}

absl::StatusOr<ReadyPlugin> PluginLoop::PickController(const std::string& plugin, Clock::time_point until) {
  return impl_->Wait(PluginType::kController, plugin, until, [&] { return impl_->NextHealthyController(plugin); });
}

// Only the registry knows the node instances behind the front.
void PluginLoop::Impl::Describe(PluginType type, PluginStatus& status, PluginCounts& counted) const {
  const std::vector<InstanceInfo> instances = registry.Instances(type, status.name);
  const std::lock_guard<std::mutex> lock(mutex);
  if (instances.empty()) counted.DeleteRole(type);  // the loop may not have handled the event yet
  for (const InstanceInfo& instance : instances) {
    InstanceStatus one{.instance = instance, .front = instance == instances.front(), .fingerprint = {}};
    const InstanceManager* const manager = Find(instance);
    if (manager != nullptr) {
      one.fingerprint = manager->fingerprint();
      const bool inspected = one.fingerprint.at != Time();  // Changed may not have counted it yet
      if (inspected) counted.Add(type, kHere, instance.instance_id, one.fingerprint.healthy);
    } else {
      one.fingerprint.problem = one.front ? "not inspected yet" : "not in use: a newer instance is";
    }
    status.controller_required |= one.fingerprint.traits.controller_service;
    status.instances.push_back(std::move(one));
  }
}

PluginCounts PluginLoop::Impl::CountsOf(const std::string& name) const {
  const std::lock_guard<std::mutex> lock(mutex);
  const auto found = counts.find(name);
  return found == counts.end() ? PluginCounts() : found->second;
}

absl::StatusOr<PluginStatus> PluginLoop::Find(const std::string& plugin) {
  PluginStatus status;
  status.name = plugin;
  PluginCounts counts = impl_->CountsOf(plugin);
  for (const Expected& each : impl_->expected()) {
    if (each.plugin != plugin) continue;
    counts.Expect(PluginType::kNode, each.nodes);
    counts.Expect(PluginType::kController, each.controllers);
  }
  for (const PluginType type : kPluginTypes) impl_->Describe(type, status, counts);
  if (counts.IsEmpty() && status.instances.empty()) {
    return NotFound(fmt::format("plugin {} is neither registered nor declared", Quote(plugin)));
  }
  status.nodes = counts.Of(PluginType::kNode);
  status.controllers = counts.Of(PluginType::kController);
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
    std::unique_lock<std::mutex> lock(impl_->mutex);
    if (impl_->waits_end) return Stopping();
    impl_->changed.wait_until(lock, std::min(until, Clock::now() + kPollInterval));
  }
}

std::vector<PluginStatus> PluginLoop::List() {
  std::set<std::string> names;
  for (const Expected& each : impl_->expected()) names.insert(each.plugin);
  for (const PluginType type : kPluginTypes) {
    for (const InstanceInfo& front : impl_->registry.List(type)) names.insert(front.name);
  }
  std::vector<PluginStatus> all;
  for (const std::string& name : names) {
    absl::StatusOr<PluginStatus> status = Find(name);
    if (status.ok()) all.push_back(*std::move(status));
  }
  return all;
}

void PluginLoop::OnHealth(std::function<void(const PluginHealth& health)> callback) {
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  impl_->callbacks.push_back(std::move(callback));
}

}  // namespace mooring::manager
