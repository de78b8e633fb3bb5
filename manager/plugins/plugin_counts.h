// Counts the healthy and the expected instances of a plugin, by role. A plain value.
//
// A node has one place for the node role of a plugin. It has one for each controller instance, because several
// controllers may share the calls.
#ifndef MOORING_MANAGER_PLUGINS_PLUGIN_COUNTS_H_
#define MOORING_MANAGER_PLUGINS_PLUGIN_COUNTS_H_

#include <map>
#include <string>
#include <utility>

#include "manager/records/records.h"

namespace mooring::manager {

struct RoleCount {
  int healthy = 0;
  int expected = 0;

  bool operator==(const RoleCount&) const = default;
};

class PluginCounts {
 public:
  // Adds an instance, which takes the place of the previous one. An unhealthy instance that was never healthy does not
  // count; it is only expected. A plugin with both services is added in both roles.
  void Add(PluginType role, const std::string& node, const std::string& instance_id, bool healthy);

  // Does nothing if another instance has the place.
  void DeleteInstance(PluginType role, const std::string& node, const std::string& instance_id);

  void DeleteRole(PluginType role);  // on all nodes

  void Expect(PluginType role, int count);  // the declared number

  RoleCount Of(PluginType role) const;
  bool IsEmpty() const;  // there is no instance, and none is expected

 private:
  struct Seen {
    std::string instance_id;
    bool healthy = false;
  };
  struct Role {
    std::map<std::pair<std::string, std::string>, Seen> places;  // key: node, and instance id of a controller
    int healthy = 0;
    int expected = 0;
  };
  static std::pair<std::string, std::string> Place(PluginType role, const std::string& node,
                                                   const std::string& instance_id);

  std::map<PluginType, Role> roles_;
};

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_PLUGINS_PLUGIN_COUNTS_H_
