#include "manager/plugins/plugin_directory.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text/quote.h"
#include "manager/csi/csi_volume.h"

namespace mooring::manager {

std::string LastErrorOf(const InstanceInfo& instance, const Fingerprint& found) {
  const char* const otherwise = found.healthy ? "is healthy" : "has not answered yet";
  return fmt::format("instance {}: {}", Quote(instance.instance_id), found.problem.empty() ? otherwise : found.problem);
}

bool PluginStatus::inspected() const {
  return !instances.empty() && std::all_of(instances.begin(), instances.end(), [](const InstanceStatus& each) {
    const bool in_use = each.front || each.instance.type == PluginType::kController;
    return !in_use || each.fingerprint.at != Time();
  });
}

bool IsReachable(const std::vector<Topology>& topologies, const StringMap& node) {
  if (topologies.empty() || node.empty()) return true;
  return std::any_of(topologies.begin(), topologies.end(), [&](const Topology& topology) {
    return std::all_of(topology.segments.begin(), topology.segments.end(), [&](const auto& segment) {
      const auto found = node.find(segment.first);
      return found != node.end() && found->second == segment.second;
    });
  });
}

StringMap NodeTopology(const PluginStatus& plugin) {
  for (const InstanceStatus& instance : plugin.instances) {
    if (instance.instance.type == PluginType::kNode && instance.fingerprint.complete) {
      return instance.fingerprint.topology;
    }
  }
  return {};
}

bool IsTopologyKnown(const PluginStatus& plugin) {
  bool has_node = false;
  for (const InstanceStatus& instance : plugin.instances) {
    if (instance.instance.type != PluginType::kNode) continue;
    if (instance.fingerprint.complete) return true;
    has_node = true;
  }
  return !has_node;
}

ControllerFor::ControllerFor(const Volume& volume)
    : plugin(volume.plugin),
      reaches(volume.topologies.empty() ? volume.required_topologies : volume.topologies),
      is_known(HasPluginId(volume)) {}

}  // namespace mooring::manager
