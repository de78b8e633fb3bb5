#include "manager/plugins/health_news.h"

#include <utility>

namespace mooring::manager {

void HealthNews::Left(const InstanceInfo& instance) { healthy_[{instance.type, instance.instance_id}] = std::nullopt; }

std::optional<HealthNews::Kind> HealthNews::Look(const InstanceInfo& instance, bool healthy) {
  const auto [known, is_new] = healthy_.try_emplace({instance.type, instance.instance_id}, healthy);
  if (is_new) return Kind::kChanged;
  const std::optional<bool> before = std::exchange(known->second, healthy);
  if (!before) return Kind::kFirstSeen;
  if (*before == healthy) return std::nullopt;
  return Kind::kChanged;
}

void HealthNews::Forget(const InstanceInfo& instance) { healthy_.erase({instance.type, instance.instance_id}); }

}  // namespace mooring::manager
