// The instances of all plugins in each role, newest first: a value, which PluginSet guards.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "manager/plugins/plugin_directory.h"

namespace mooring::manager {

// A number for the object that serves an instance. An endpoint has the same instance id each time it is declared, and
// the end of its former declaration must not retire it.
using InstanceOwner = std::uint64_t;
inline constexpr InstanceOwner kEarlierManager = 0;

struct PluginInstance {
  InstanceInfo info;
  std::shared_ptr<CsiChannel> channel;    // null: not in use
  std::uint64_t use = 0;                  // a number for each time that an instance comes into use
  InstanceOwner owner = kEarlierManager;  // under the mutex of changes
  bool was_left = false;                  // by an earlier manager, and not inspected yet
  RoleCount before;                       // of a node: the count of its role before it came into use
  Fingerprint health;
};
using PluginInstances = std::vector<std::shared_ptr<PluginInstance>>;

std::string_view RoleName(PluginType type);

// Copies share the instances.
class PluginRoles {
 public:
  const PluginInstances& Of(PluginType type, const std::string& name) const;
  PluginInstances All() const;
  bool operator==(const PluginRoles&) const = default;

  // As the methods of PluginSet. Keeps the instances of `left` in their order.
  static PluginRoles Restore(const std::vector<InstanceInfo>& left);
  void Serve(InstanceInfo instance, const std::vector<PluginType>& roles, InstanceOwner owner);
  bool TakeOver(const std::string& plugin, const std::string& instance_id, InstanceOwner owner);
  void Retire(const std::string& plugin, const std::string& instance_id, InstanceOwner owner);

  // Replaces each instance that comes into use, which gets the next use and a channel, or goes out of use.
  void ChooseInUse(const CsiConnector& connect, std::uint64_t& last_use);

  // Gives each node that has come into use since `before` the count of its predecessor.
  void CountPredecessors(const PluginRoles& before);

  bool HasHealthy(const std::string& name) const;
  RoleCount Count(PluginType type, const std::string& name) const;
  std::string LastErrors(PluginType type, const std::string& name) const;

 private:
  std::map<std::pair<PluginType, std::string>, PluginInstances> roles_;  // none of them is empty
};

}  // namespace mooring::manager
