#include "manager/plugins/plugin_counts.h"

#include <algorithm>

namespace mooring::manager {

std::pair<std::string, std::string> PluginCounts::Place(PluginType role, const std::string& node,
                                                        const std::string& instance_id) {
  return {node, role == PluginType::kController ? instance_id : ""};
}

void PluginCounts::Add(PluginType role, const std::string& node, const std::string& instance_id, bool healthy) {
  Role& counted = roles_[role];
  const auto place = Place(role, node, instance_id);
  const auto before = counted.places.find(place);
  if (before != counted.places.end() && before->second.healthy) --counted.healthy;
  if (before != counted.places.end() || healthy) counted.places[place] = {instance_id, healthy};
  if (healthy) ++counted.healthy;
}

void PluginCounts::DeleteInstance(PluginType role, const std::string& node, const std::string& instance_id) {
  Role& counted = roles_[role];
  const auto seen = counted.places.find(Place(role, node, instance_id));
  if (seen == counted.places.end() || seen->second.instance_id != instance_id) return;
  if (seen->second.healthy) --counted.healthy;
  counted.places.erase(seen);
}

void PluginCounts::DeleteRole(PluginType role) {
  Role& counted = roles_[role];
  counted.places.clear();
  counted.healthy = 0;
}

void PluginCounts::Expect(PluginType role, int count) { roles_[role].expected = count; }

// An instance that nobody declared is expected for as long as it is there.
RoleCount PluginCounts::Of(PluginType role) const {
  const auto counted = roles_.find(role);
  if (counted == roles_.end()) return {};
  return {counted->second.healthy, std::max(counted->second.expected, static_cast<int>(counted->second.places.size()))};
}

bool PluginCounts::IsEmpty() const {
  return std::all_of(roles_.begin(), roles_.end(),
                     [](const auto& entry) { return entry.second.places.empty() && entry.second.expected == 0; });
}

}  // namespace mooring::manager
