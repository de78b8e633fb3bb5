#include "manager/plugins/plugin_loop.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "base/status.h"
#include "base/text/quote.h"
#include "manager/plugins/health_news.h"
#include "manager/plugins/instance_reaper.h"
#include "manager/records/words.h"

namespace mooring::manager {
namespace {

using Managed = std::shared_ptr<InstanceManager>;

constexpr char kHere[] = "";  // the only node that this loop knows

constexpr std::chrono::milliseconds kLook{50};  // the registry may change without a notice to who waits

// All but node instances behind the newest, which nobody looks at.
bool AreLookedAt(const PluginStatus& status) {
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

struct PluginLoop::Parts {
  Parts(Registry& in_registry, Events& in_events, CsiConnector in_connect, AskExpected in_expected,
        Settings in_settings)
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
  std::vector<Managed> Replace(PluginType type, const std::string& name, const std::vector<InstanceInfo>& wanted);
  Managed Start(const InstanceInfo& instance);

  // From an instance's thread.
  void Changed(const InstanceInfo& instance, const Fingerprint& fingerprint);

  // Under mutex.
  const std::vector<Managed>& Of(PluginType type, const std::string& name) const;
  const InstanceManager* Find(const InstanceInfo& instance) const;
  bool HasHealthy(const std::string& name) const;
  Managed NextHealthyController(const std::string& name);
  std::string Words(PluginType type, const std::string& name) const;
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
  std::map<PluginType, std::map<std::string, std::vector<Managed>>> managers;  // newest first; none that is stopped
  std::map<std::string, PluginCounts> counts;                                  // by plugin
  std::map<std::string, std::uint64_t> turns;                                  // of controllers, by plugin
  HealthNews news;
  std::vector<std::function<void(const PluginHealth&)>> callbacks;
  bool waits_end = false;
  bool stopping = false;

  std::map<PluginType, std::unique_ptr<Registry::Subscription>> subscriptions;
  std::vector<std::thread> threads;
  InstanceReaper reaper;
};

PluginLoop::PluginLoop(Registry& registry, Events& events, CsiConnector connect, AskExpected expected,
                       Settings settings)
    : parts_(std::make_unique<Parts>(registry, events, std::move(connect), std::move(expected), settings)) {
  for (const PluginType type : kPluginTypes) {
    parts_->subscriptions[type] = std::make_unique<Registry::Subscription>(registry, type);
    for (const InstanceInfo& front : registry.List(type)) {
      for (const InstanceInfo& left : registry.Instances(type, front.name)) parts_->news.Left(left);
    }
  }
  for (const PluginType type : kPluginTypes) parts_->threads.emplace_back([this, type] { parts_->Run(type); });
}

PluginLoop::~PluginLoop() { Shutdown(); }

void PluginLoop::EndWaits() {
  const std::lock_guard<std::mutex> lock(parts_->mutex);
  parts_->waits_end = true;
  parts_->changed.notify_all();
}

void PluginLoop::Shutdown() {
  EndWaits();
  {
    const std::lock_guard<std::mutex> lock(parts_->mutex);
    parts_->stopping = true;
  }
  for (const auto& [type, subscription] : parts_->subscriptions) subscription->Stop();
  for (std::thread& thread : parts_->threads) thread.join();
  parts_->threads.clear();
  std::vector<Managed> all;
  {
    const std::lock_guard<std::mutex> lock(parts_->mutex);
    for (const auto& [type, names] : parts_->managers) {
      for (const auto& [name, managers] : names) all.insert(all.end(), managers.begin(), managers.end());
    }
    parts_->managers.clear();
  }
  parts_->reaper.Stop(std::move(all));
  parts_->reaper.Finish();
}

void PluginLoop::Parts::Run(PluginType type) {
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

void PluginLoop::Parts::Handle(const RegistryEvent& event) {
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

void PluginLoop::Parts::Resync(PluginType type) {
  std::set<std::string> names;
  for (const InstanceInfo& front : registry.List(type)) names.insert(front.name);
  {
    const std::lock_guard<std::mutex> lock(mutex);
    for (const auto& [name, managers_of_it] : managers[type]) names.insert(name);
  }
  for (const std::string& name : names) Ensure(type, name);
}

// By what the registry says now, whatever event it was that asked for it: an instance that is not the one to go is
// never stopped by the end of another, (b) 4.
void PluginLoop::Parts::Ensure(PluginType type, const std::string& name) {
  std::vector<InstanceInfo> wanted = registry.Instances(type, name);
  if (type == PluginType::kNode && wanted.size() > 1) wanted.resize(1);
  reaper.Stop(Replace(type, name, wanted));
}

// The new one takes over before the old one is stopped, which takes as long as a plugin that hangs may take. Gives
// those that are to be stopped.
std::vector<Managed> PluginLoop::Parts::Replace(PluginType type, const std::string& name,
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
  // A node's place is its newest instance's, which counts as the one before it until it was looked at.
  const bool replaced = type == PluginType::kNode && !wanted.empty();
  for (const Managed& gone : before) {
    if (!replaced) counts[name].DeleteInstance(type, kHere, gone->instance().instance_id);
    news.Forget(gone->instance());
  }
  changed.notify_all();
  return before;
}

Managed PluginLoop::Parts::Start(const InstanceInfo& instance) {
  return std::make_shared<InstanceManager>(
      instance, connect(instance.socket_path, instance.name), settings.instance,
      [this](const InstanceInfo& of, const Fingerprint& found) { Changed(of, found); });
}

void PluginLoop::Parts::Changed(const InstanceInfo& instance, const Fingerprint& fingerprint) {
  const std::string text =
      fingerprint.healthy ? fmt::format("{} instance is healthy: {} {}", RoleName(instance.type),
                                        Quote(fingerprint.driver_name), Quote(fingerprint.vendor_version))
                          : fmt::format("{} instance is not healthy: {}", RoleName(instance.type), fingerprint.words);
  std::vector<std::function<void(const PluginHealth&)>> told;
  PluginHealth health;
  bool bad = false;
  {
    const std::lock_guard<std::mutex> lock(mutex);
    changed.notify_all();
    const bool known = Find(instance) != nullptr;  // of one that was stopped it is no news
    if (known) counts[instance.name].Add(instance.type, kHere, instance.instance_id, fingerprint.healthy);
    bad = !fingerprint.healthy && known;
    const auto kind = known ? news.Look(instance, fingerprint.healthy) : std::nullopt;
    health = {instance.name, HasHealthy(instance.name), kind == HealthNews::Kind::kChanged};
    if (!stopping && kind) told = callbacks;
  }
  events.Add({.bad = bad,
              .kind = "health",
              .plugin = instance.name,
              .instance = instance.instance_id,
              .volume = {},
              .allocation = {},
              .text = text});
  for (const auto& callback : told) callback(health);
}

const std::vector<Managed>& PluginLoop::Parts::Of(PluginType type, const std::string& name) const {
  static const std::vector<Managed> none;
  const auto names = managers.find(type);
  if (names == managers.end()) return none;
  const auto found = names->second.find(name);
  return found == names->second.end() ? none : found->second;
}

const InstanceManager* PluginLoop::Parts::Find(const InstanceInfo& instance) const {
  for (const Managed& each : Of(instance.type, instance.name)) {
    if (each->instance() == instance) return each.get();
  }
  return nullptr;
}

bool PluginLoop::Parts::HasHealthy(const std::string& name) const {
  for (const PluginType type : kPluginTypes) {
    for (const Managed& each : Of(type, name)) {
      if (each->fingerprint().healthy) return true;
    }
  }
  return false;
}

Managed PluginLoop::Parts::NextHealthyController(const std::string& name) {
  std::vector<Managed> healthy = Of(PluginType::kController, name);
  std::erase_if(healthy, [](const Managed& each) { return !each->fingerprint().healthy; });
  return healthy.empty() ? nullptr : healthy[turns[name]++ % healthy.size()];
}

std::string PluginLoop::Parts::Words(PluginType type, const std::string& name) const {
  const std::vector<Managed>& known = Of(type, name);
  std::string words;
  for (const Managed& each : known)
    words += (words.empty() ? "" : "; ") + LastWordsOf(each->instance(), each->fingerprint());
  return words.empty() ? fmt::format("no {} instance of it is registered", RoleName(type)) : words;
}

absl::StatusOr<ReadyPlugin> PluginLoop::Parts::Wait(PluginType type, const std::string& name, Clock::time_point until,
                                                    const std::function<Managed()>& find) {
  std::unique_lock<std::mutex> lock(mutex);
  Managed found;
  changed.wait_until(lock, until, [&] { return waits_end || (found = find()) != nullptr; });
  if (waits_end) return Stopping();
  if (found != nullptr) return found->Now();
  return Unavailable(
      fmt::format("plugin {} has no {} instance that is ready: {}", Quote(name), RoleName(type), Words(type, name)));
}

absl::StatusOr<ReadyPlugin> PluginLoop::WaitForNode(const std::string& plugin, Clock::time_point until) {
  return parts_->Wait(PluginType::kNode, plugin, until, [&]() -> Managed {
    const std::vector<Managed>& found = parts_->Of(PluginType::kNode, plugin);
    return found.empty() || !found.front()->fingerprint().complete ? nullptr : found.front();
  });
}

absl::StatusOr<ReadyPlugin> PluginLoop::PickController(const std::string& plugin, Clock::time_point until) {
  return parts_->Wait(PluginType::kController, plugin, until, [&] { return parts_->NextHealthyController(plugin); });
}

// Node instances behind the front are known to the registry alone.
void PluginLoop::Parts::Describe(PluginType type, PluginStatus& status, PluginCounts& counted) const {
  const std::vector<InstanceInfo> instances = registry.Instances(type, status.name);
  const std::lock_guard<std::mutex> lock(mutex);
  if (instances.empty()) counted.DeleteRole(type);  // the loop may not have followed yet
  for (const InstanceInfo& instance : instances) {
    InstanceStatus one{.instance = instance, .front = instance == instances.front(), .fingerprint = {}};
    const InstanceManager* const manager = Find(instance);
    if (manager != nullptr) {
      one.fingerprint = manager->fingerprint();
      const bool looked_at = one.fingerprint.at != Time();  // it may be in front of the news of it
      if (looked_at) counted.Add(type, kHere, instance.instance_id, one.fingerprint.healthy);
    } else {
      one.fingerprint.words = one.front ? "not looked at yet" : "not in use: a newer instance is";
    }
    status.controller_required |= one.fingerprint.traits.controller_service;
    status.instances.push_back(std::move(one));
  }
}

PluginCounts PluginLoop::Parts::CountsOf(const std::string& name) const {
  const std::lock_guard<std::mutex> lock(mutex);
  const auto found = counts.find(name);
  return found == counts.end() ? PluginCounts() : found->second;
}

absl::StatusOr<PluginStatus> PluginLoop::Find(const std::string& plugin) {
  PluginStatus status;
  status.name = plugin;
  PluginCounts counts = parts_->CountsOf(plugin);
  for (const Expected& each : parts_->expected()) {
    if (each.plugin != plugin) continue;
    counts.Expect(PluginType::kNode, each.nodes);
    counts.Expect(PluginType::kController, each.controllers);
  }
  for (const PluginType type : kPluginTypes) parts_->Describe(type, status, counts);
  if (counts.IsEmpty() && status.instances.empty()) {
    return NotFound(fmt::format("nothing is known of a plugin {}", Quote(plugin)));
  }
  status.nodes = counts.Of(PluginType::kNode);
  status.controllers = counts.Of(PluginType::kController);
  return status;
}

absl::StatusOr<PluginStatus> PluginLoop::WaitUntilLookedAt(const std::string& plugin, Clock::time_point until) {
  for (;;) {
    MOORING_ASSIGN_OR_RETURN(PluginStatus status, Find(plugin));
    if (AreLookedAt(status)) return status;
    if (Clock::now() >= until) {
      return absl::DeadlineExceededError(fmt::format(
          "the health of plugin {} was not known in time; run 'mooring plugin status {}'", Quote(plugin), plugin));
    }
    std::unique_lock<std::mutex> lock(parts_->mutex);
    if (parts_->waits_end) return Stopping();
    parts_->changed.wait_until(lock, std::min(until, Clock::now() + kLook));
  }
}

std::vector<PluginStatus> PluginLoop::List() {
  std::set<std::string> names;
  for (const Expected& each : parts_->expected()) names.insert(each.plugin);
  for (const PluginType type : kPluginTypes) {
    for (const InstanceInfo& front : parts_->registry.List(type)) names.insert(front.name);
  }
  std::vector<PluginStatus> all;
  for (const std::string& name : names) {
    absl::StatusOr<PluginStatus> status = Find(name);
    if (status.ok()) all.push_back(*std::move(status));
  }
  return all;
}

void PluginLoop::OnHealth(std::function<void(const PluginHealth& health)> callback) {
  const std::lock_guard<std::mutex> lock(parts_->mutex);
  parts_->callbacks.push_back(std::move(callback));
}

}  // namespace mooring::manager
