// Which looks at instances are news of their plugin's health, and which of those are a change of it, (k) 4. Pure.
//
// The first look at an instance is news. It is a change, too, where the instance is a new one: another was there before
// it, or none. Of one that an earlier manager has left it is none: that it is well now was so before.
#ifndef MOORING_MANAGER_PLUGINS_HEALTH_NEWS_H_
#define MOORING_MANAGER_PLUGINS_HEALTH_NEWS_H_

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "manager/records/records.h"

namespace mooring::manager {

class HealthNews {
 public:
  enum class Kind { kFirstSeen, kChanged };

  void Left(const InstanceInfo& instance);  // by an earlier manager

  // Absent: no news.
  std::optional<Kind> Look(const InstanceInfo& instance, bool healthy);

  void Forget(const InstanceInfo& instance);  // it is gone

 private:
  using Key = std::pair<PluginType, std::string>;

  std::map<Key, std::optional<bool>> healthy_;  // by instance; absent: left, and not seen yet
};

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_PLUGINS_HEALTH_NEWS_H_
