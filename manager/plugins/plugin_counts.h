// How many instances of a plugin there are and are healthy, by role: (g). Pure.
//
// A node has one place for a plugin's node role, and one for each of its controller instances: several may share the
// calls, (k) 3.
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
  // An instance as it was seen. It takes the place of the one before; a sick one that was never seen healthy counts
  // nowhere: it is only expected. A monolith is added in both roles.
  void Add(PluginType role, const std::string& node, const std::string& instance_id, bool healthy);

  void DeleteInstance(PluginType role, const std::string& node, const std::string& instance_id);  // if it is that one

  void DeleteRole(PluginType role);  // on all nodes

  void Expect(PluginType role, int count);  // what is declared

  RoleCount Of(PluginType role) const;
  bool IsEmpty() const;  // no instance, and nothing is expected

 private:
  struct Seen {
    std::string instance_id;
    bool healthy = false;
  };
  struct Role {
    std::map<std::pair<std::string, std::string>, Seen> places;  // by node and, of controllers, instance
    int healthy = 0;
    int expected = 0;
  };
  static std::pair<std::string, std::string> Place(PluginType role, const std::string& node,
                                                   const std::string& instance_id);

  std::map<PluginType, Role> roles_;
};

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_PLUGINS_PLUGIN_COUNTS_H_
