#include "manager/plugins/plugin_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include "base/log.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "manager/records/record_codec.h"
#include "manager/state/keys.h"

namespace mooring::manager {
namespace {

// Gives the instances in the order in which they were stored. Damaged ones are left out.
absl::StatusOr<std::vector<InstanceInfo>> LoadInstances(State& state, const std::string& host) {
  std::vector<InstanceInfo> instances;
  MOORING_ASSIGN_OR_RETURN(const std::optional<KeyValue> stored, state.Get(RegistryStateKey(host)));
  if (!stored) return instances;
  v1::StoredRegistry message;
  if (!message.ParseFromString(stored->value)) {
    log::Warning("the stored plugin registry is damaged: instances are registered again when they answer",
                 {{"host", host}});
    return instances;
  }
  for (const v1::Instance& each : message.instances()) {
    absl::StatusOr<InstanceInfo> instance = FromProto(each);
    if (instance.ok()) {
      instances.push_back(*std::move(instance));
    } else {
      log::Warning("an instance in the stored plugin registry is damaged, and is left out",
                   {{"plugin", each.name()}, {"cause", Message(instance.status())}});
    }
  }
  return instances;
}

absl::Status StoreInstances(State& state, const std::string& host, const std::vector<InstanceInfo>& instances) {
  v1::StoredRegistry message;
  for (const InstanceInfo& instance : instances) *message.add_instances() = ToProto(instance);
  Transaction transaction;
  transaction.puts.push_back({RegistryStateKey(host), message.SerializeAsString()});
  return Annotate(state.Commit(transaction).status(), "store the registry of plugins");
}

constexpr int kLastInspectionsAtOnce = 4;  // of one plugin

PluginInstances Except(const PluginInstances& all, const PluginInstances& others, const auto& is_same) {
  PluginInstances found;
  std::copy_if(all.begin(), all.end(), std::back_inserter(found), [&](const auto& each) {
    return std::none_of(others.begin(), others.end(), [&](const auto& other) { return is_same(*each, *other); });
  });
  return found;
}

std::vector<InstanceInfo> Infos(const PluginInstances& instances) {
  std::vector<InstanceInfo> infos;
  for (const auto& each : instances) infos.push_back(each->info);
  return infos;
}

bool IsSameInstance(const InstanceInfo& a, const InstanceInfo& b) {
  return a.type == b.type && a.name == b.name && a.instance_id == b.instance_id;
}

}  // namespace

PluginSet::PluginSet(State& state, std::string host, Events& events, CsiConnector connect, WorkQueue& work,
                     Clock::duration last_inspection)
    : state_(state),
      host_(std::move(host)),
      events_(events),
      connect_(std::move(connect)),
      last_inspection_(last_inspection),
      last_inspections_(work, {.kind = "last inspection", .width = kLastInspectionsAtOnce, .is_routine = true}) {}

absl::StatusOr<std::unique_ptr<PluginSet>> PluginSet::Open(State& state, const std::string& host, Events& events,
                                                           CsiConnector connect, WorkQueue& work,
                                                           Clock::duration last_inspection) {
  std::unique_ptr<PluginSet> plugins(new PluginSet(state, host, events, std::move(connect), work, last_inspection));
  MOORING_ASSIGN_OR_RETURN(const std::vector<InstanceInfo> left, LoadInstances(state, host));
  plugins->roles_ = PluginRoles::Restore(left);
  plugins->roles_.ChooseInUse(plugins->connect_, plugins->last_use_);
  return plugins;
}

absl::Status PluginSet::Serve(const InstanceInfo& instance, const std::vector<PluginType>& roles, InstanceOwner owner) {
  if (instance.name.empty() || instance.instance_id.empty() || instance.socket_path.empty()) {
    return InvalidArgument("register plugin {}: its name, the instance id or the socket is missing",
                           Quote(instance.name));
  }
  return Change([&](PluginRoles& next) { next.Serve(instance, roles, owner); });
}

bool PluginSet::TakeOver(const std::string& plugin, const std::string& instance_id, InstanceOwner owner) {
  const std::lock_guard<std::mutex> change(change_mutex_);
  return roles_.TakeOver(plugin, instance_id, owner);
}

absl::Status PluginSet::Retire(const std::string& plugin, const std::string& instance_id, InstanceOwner owner) {
  return Change([&](PluginRoles& next) { next.Retire(plugin, instance_id, owner); });
}

// Stores the change, then takes it over, then reports it. Nothing is destroyed under a mutex.
absl::Status PluginSet::Change(const std::function<void(PluginRoles& next)>& edit) {
  PluginRoles next;
  PluginInstances before, ended;
  {
    const std::lock_guard<std::mutex> change(change_mutex_);
    before = roles_.All();
    next = roles_;
    edit(next);
    if (next == roles_) return absl::OkStatus();
    MOORING_RETURN_IF_ERROR(StoreInstances(state_, host_, Infos(next.All())));
    next.ChooseInUse(connect_, last_use_);
    Replace(next);
    const PluginInstances now = next.All();
    AddEvents("registered", Except(now, before, [](auto& a, auto& b) { return a.info == b.info; }));
    AddEvents("deregistered", Except(before, now, [](auto& a, auto& b) { return IsSameInstance(a.info, b.info); }));
    ended = Except(before, now, [](auto& a, auto& b) { return &a == &b; });
  }
  for (const auto& instance : ended) {
    if (instance->channel != nullptr) InspectOnceMore(instance);
  }
  return absl::OkStatus();
}

void PluginSet::Replace(PluginRoles& next) {
  const std::lock_guard<std::mutex> lock(mutex_);
  next.CountPredecessors(roles_);
  roles_ = next;
  changed_.notify_all();
}

void PluginSet::AddEvents(const char* kind, const PluginInstances& instances) {
  for (const auto& each : instances) {
    const InstanceInfo& info = each->info;
    events_.Add({.kind = kind,
                 .plugin = info.name,
                 .instance = info.instance_id,
                 .text = fmt::format("{} instance at {}", RoleName(info.type), Quote(info.socket_path))});
  }
}

void PluginSet::Declare(const std::string& plugin, const std::vector<PluginType>& roles) {
  const auto has = [&](PluginType type) { return std::find(roles.begin(), roles.end(), type) != roles.end(); };
  const std::lock_guard<std::mutex> lock(mutex_);
  declared_[plugin] = {.nodes = roles.empty() || has(PluginType::kNode) ? 1 : 0,
                       .controllers = has(PluginType::kController) ? 1 : 0};
  changed_.notify_all();
}

void PluginSet::Undeclare(const std::string& plugin) {
  const std::lock_guard<std::mutex> lock(mutex_);
  declared_.erase(plugin);
  changed_.notify_all();
}

// No other work has this key, so an inspection is not repeated.
void PluginSet::InspectOnceMore(const std::shared_ptr<PluginInstance>& instance) {
  const InstanceInfo& info = instance->info;
  const auto attempt = [this, instance] {
    const auto until = Clock::now() + last_inspection_;
    AddHealthEvent(instance->info, InspectStopped(*instance->channel, instance->info.type, instance->health, until),
                   /*bad=*/false);
    return absl::OkStatus();
  };
  last_inspections_.Push({.key = fmt::format("{} {} ({})", RoleName(info.type), info.instance_id, instance->use),
                          .lane = info.name,
                          .attempt = attempt});
}

void PluginSet::AddHealthEvent(const InstanceInfo& instance, const Fingerprint& found, bool bad) {
  const std::string text = found.healthy
                               ? fmt::format("{} instance is healthy: {} {}", RoleName(instance.type),
                                             Quote(found.driver_name), Quote(found.vendor_version))
                               : fmt::format("{} instance is not healthy: {}", RoleName(instance.type), found.problem);
  events_.Add({.bad = bad, .kind = "health", .plugin = instance.name, .instance = instance.instance_id, .text = text});
}

std::vector<PluginSet::InUse> PluginSet::ListInUse(const std::string& plugin) const {
  std::vector<InUse> in_use;
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const PluginType type : kPluginTypes) {
    for (const auto& each : roles_.Of(type, plugin)) {
      if (each->channel != nullptr) in_use.push_back({each->info, each->use, each->health});
    }
  }
  return in_use;
}

void PluginSet::Store(const InUse& inspected, const Fingerprint& found) {
  StoreIf(inspected,
          [&](const Fingerprint& now) { return now.at == inspected.known.at ? std::optional(found) : std::nullopt; });
}

void PluginSet::StoreFailure(const InUse& inspected, const absl::Status& probed) {
  StoreIf(inspected, [&](const Fingerprint& now) { return AfterFailure(now, probed); });
}

// `find` gives what to store in place of `now`.
void PluginSet::StoreIf(const InUse& inspected,
                        const std::function<std::optional<Fingerprint>(const Fingerprint& now)>& find) {
  const InstanceInfo& info = inspected.instance;
  std::vector<std::function<void(const PluginHealth&)>> to_call;
  PluginHealth health;
  {
    const std::lock_guard<std::mutex> report(report_mutex_);
    std::unique_lock<std::mutex> lock(mutex_);
    PluginInstance* const instance = FindUse(inspected);
    if (instance == nullptr) return;
    const std::optional<Fingerprint> found = find(instance->health);
    if (!found) return;
    const Fingerprint before = std::exchange(instance->health, *found);
    if (found->SameHealth(before) && found->SameDescription(before)) return;
    changed_.notify_all();
    const bool was_left = std::exchange(instance->was_left, false);
    health = {info.name, roles_.HasHealthy(info.name), !was_left};
    const bool is_first = before.at == Time();
    if (!stopping_ && (is_first || before.healthy != found->healthy)) to_call = callbacks_;
    lock.unlock();
    AddHealthEvent(info, *found, /*bad=*/!found->healthy);
  }
  for (const auto& callback : to_call) callback(health);
}

PluginInstance* PluginSet::FindUse(const InUse& inspected) const {
  for (const auto& each : roles_.Of(inspected.instance.type, inspected.instance.name)) {
    if (each->use == inspected.use) return each.get();
  }
  return nullptr;
}

std::shared_ptr<PluginInstance> PluginSet::NextHealthyController(const std::string& name) {
  PluginInstances healthy = roles_.Of(PluginType::kController, name);
  std::erase_if(healthy, [](const auto& each) { return !each->health.healthy; });
  return healthy.empty() ? nullptr : healthy[turns_[name]++ % healthy.size()];
}

absl::StatusOr<ReadyPlugin> PluginSet::Wait(PluginType type, const std::string& name, Clock::time_point until,
                                            const std::function<std::shared_ptr<PluginInstance>()>& find) {
  std::unique_lock<std::mutex> lock(mutex_);
  std::shared_ptr<PluginInstance> found;
  changed_.wait_until(lock, until, [&] { return stopping_ || (found = find()) != nullptr; });
  if (stopping_) return Stopping();
  if (found != nullptr) return ReadyPlugin{found->info, found->health, found->channel};
  return Unavailable("plugin {} has no {} instance that is ready: {}", Quote(name), RoleName(type),
                     roles_.LastErrors(type, name));
}

absl::StatusOr<ReadyPlugin> PluginSet::WaitForNode(const std::string& plugin, Clock::time_point until) {
  return Wait(PluginType::kNode, plugin, until, [&] {
    const PluginInstances& found = roles_.Of(PluginType::kNode, plugin);
    return found.empty() || !found.front()->health.complete ? nullptr : found.front();
  });
}

absl::StatusOr<ReadyPlugin> PluginSet::PickController(const ControllerFor& call, Clock::time_point until) {
  return Wait(PluginType::kController, call.plugin, until, [&] { return NextHealthyController(call.plugin); });
}

RoleCount PluginSet::DescribeRole(PluginType type, PluginStatus& status) const {
  const PluginInstances& instances = roles_.Of(type, status.name);
  for (const auto& each : instances) {
    InstanceStatus one{.instance = each->info, .front = each == instances.front(), .fingerprint = each->health};
    status.controller_required |= one.fingerprint.traits.controller_service;
    status.instances.push_back(std::move(one));
  }
  return roles_.Count(type, status.name);
}

absl::StatusOr<PluginStatus> PluginSet::Describe(const std::string& name) const {
  PluginStatus status;
  status.name = name;
  status.nodes = DescribeRole(PluginType::kNode, status);
  status.controllers = DescribeRole(PluginType::kController, status);
  const auto declared = declared_.find(name);
  if (declared != declared_.end()) {
    status.nodes.expected = std::max(status.nodes.expected, declared->second.nodes);
    status.controllers.expected = std::max(status.controllers.expected, declared->second.controllers);
  } else if (status.instances.empty()) {
    return NotFound("plugin {} is neither registered nor declared", Quote(name));
  }
  return status;
}

absl::StatusOr<PluginStatus> PluginSet::Find(const std::string& plugin) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return Describe(plugin);
}

absl::StatusOr<PluginStatus> PluginSet::WaitUntilInspected(const std::string& plugin, Clock::time_point until) {
  std::unique_lock<std::mutex> lock(mutex_);
  absl::StatusOr<PluginStatus> status;
  const auto is_settled = [&] {
    status = Describe(plugin);
    return !status.ok() || status->inspected();
  };
  const bool in_time = changed_.wait_until(lock, until, [&] { return is_settled() || stopping_; });
  if (is_settled()) return status;
  if (in_time) return Stopping();
  return absl::DeadlineExceededError(fmt::format(
      "the health of plugin {} was not known in time; run 'mooring plugin status {}'", Quote(plugin), plugin));
}

std::vector<PluginStatus> PluginSet::List() {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::set<std::string> names;
  for (const auto& [name, declared] : declared_) names.insert(name);
  for (const auto& instance : roles_.All()) names.insert(instance->info.name);
  std::vector<PluginStatus> all;
  for (const std::string& name : names) {
    if (absl::StatusOr<PluginStatus> status = Describe(name); status.ok()) all.push_back(*std::move(status));
  }
  return all;
}

void PluginSet::OnHealth(std::function<void(const PluginHealth& health)> callback) {
  const std::lock_guard<std::mutex> lock(mutex_);
  callbacks_.push_back(std::move(callback));
}

void PluginSet::BeginStop() {
  const std::lock_guard<std::mutex> lock(mutex_);
  stopping_ = true;
  changed_.notify_all();
}

void PluginSet::Stop() {
  BeginStop();
  last_inspections_.Stop();
}

}  // namespace mooring::manager
