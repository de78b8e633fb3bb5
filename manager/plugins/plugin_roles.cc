#include "manager/plugins/plugin_roles.h"

#include <fmt/format.h>

#include <algorithm>

namespace mooring::manager {
namespace {

auto FindById(auto& instances, const std::string& instance_id) {
  return std::find_if(instances.begin(), instances.end(),
                      [&](const auto& each) { return each->info.instance_id == instance_id; });
}

// An instance that comes into use, or goes out of use, begins anew.
std::shared_ptr<PluginInstance> Renew(const PluginInstance& instance, bool in_use) {
  auto renewed = std::make_shared<PluginInstance>();
  renewed->info = instance.info;
  renewed->owner = instance.owner;
  renewed->was_left = in_use && instance.was_left;
  renewed->health.problem = in_use ? "not inspected yet" : "not in use: a newer instance is";
  return renewed;
}

}  // namespace

std::string_view RoleName(PluginType type) { return type == PluginType::kNode ? "node" : "controller"; }

const PluginInstances& PluginRoles::Of(PluginType type, const std::string& name) const {
  static const PluginInstances none;
  const auto found = roles_.find({type, name});
  return found == roles_.end() ? none : found->second;
}

PluginInstances PluginRoles::All() const {
  PluginInstances all;
  for (const auto& [role, instances] : roles_) all.insert(all.end(), instances.begin(), instances.end());
  return all;
}

PluginRoles PluginRoles::Restore(const std::vector<InstanceInfo>& left) {
  PluginRoles restored;
  for (const InstanceInfo& info : left) {
    auto instance = std::make_shared<PluginInstance>();
    instance->info = info;
    instance->was_left = true;
    instance->health.problem = "not in use: a newer instance is";
    restored.roles_[{info.type, info.name}].push_back(std::move(instance));
  }
  return restored;
}

void PluginRoles::Serve(InstanceInfo instance, const std::vector<PluginType>& roles, InstanceOwner owner) {
  for (const PluginType type : kPluginTypes) {
    instance.type = type;
    PluginInstances& instances = roles_[{type, instance.name}];
    const bool has_role = std::find(roles.begin(), roles.end(), type) != roles.end();
    if (const auto known = FindById(instances, instance.instance_id); known != instances.end()) {
      (*known)->owner = owner;
      if (has_role && (*known)->info == instance) continue;
      instances.erase(known);
    }
    if (has_role) {
      const auto added = instances.insert(instances.begin(), std::make_shared<PluginInstance>());
      (*added)->info = instance;
      (*added)->owner = owner;
    } else if (instances.empty()) {
      roles_.erase({type, instance.name});
    }
  }
}

bool PluginRoles::TakeOver(const std::string& plugin, const std::string& instance_id, InstanceOwner owner) {
  bool found = false;
  for (const PluginType type : kPluginTypes) {
    const PluginInstances& instances = Of(type, plugin);
    const auto known = FindById(instances, instance_id);
    if (known == instances.end()) continue;
    (*known)->owner = owner;
    found = true;
  }
  return found;
}

void PluginRoles::Retire(const std::string& plugin, const std::string& instance_id, InstanceOwner owner) {
  for (const PluginType type : kPluginTypes) {
    const auto role = roles_.find({type, plugin});
    if (role == roles_.end()) continue;
    std::erase_if(role->second, [&](const auto& each) {
      const bool may_retire = each->owner == owner || each->owner == kEarlierManager;
      return each->info.instance_id == instance_id && may_retire;
    });
    if (role->second.empty()) roles_.erase(role);
  }
}

void PluginRoles::ChooseInUse(const CsiConnector& connect, std::uint64_t& last_use) {
  for (auto& [role, instances] : roles_) {
    for (auto& each : instances) {
      const bool in_use = role.first == PluginType::kController || &each == &instances.front();
      if (in_use == (each->channel != nullptr)) continue;
      each = Renew(*each, in_use);
      if (!in_use) continue;
      each->channel = connect(each->info.socket_path, each->info.name);
      each->use = ++last_use;
    }
  }
}

void PluginRoles::CountPredecessors(const PluginRoles& before) {
  for (const auto& [role, instances] : roles_) {
    const PluginInstances& earlier = before.Of(role.first, role.second);
    const bool is_new = earlier.empty() || earlier.front() != instances.front();
    if (role.first == PluginType::kNode && is_new) instances.front()->before = before.Count(role.first, role.second);
  }
}

bool PluginRoles::HasHealthy(const std::string& name) const {
  return std::any_of(kPluginTypes.begin(), kPluginTypes.end(), [&](PluginType type) {
    const PluginInstances& instances = Of(type, name);
    return std::any_of(instances.begin(), instances.end(), [](const auto& each) { return each->health.healthy; });
  });
}

// The newest node instance takes the place of the previous one, and keeps its health until the first inspection.
RoleCount PluginRoles::Count(PluginType type, const std::string& name) const {
  RoleCount count;
  for (const auto& each : Of(type, name)) {
    if (each->channel == nullptr) continue;
    if (type == PluginType::kNode && each->health.at == Time()) return each->before;
    if (each->health.healthy) ++count.healthy;
    if (each->health.complete) ++count.expected;
    count.expected = std::max(count.expected, each->before.expected);
  }
  return count;
}

std::string PluginRoles::LastErrors(PluginType type, const std::string& name) const {
  std::string errors;
  for (const auto& each : Of(type, name)) {
    if (each->channel != nullptr) errors += (errors.empty() ? "" : "; ") + LastErrorOf(each->info, each->health);
  }
  return errors.empty() ? fmt::format("no {} instance of it is registered", RoleName(type)) : errors;
}

}  // namespace mooring::manager
