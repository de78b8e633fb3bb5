// The key `quota` of --pool, for kinds whose sizes are quotas of a filesystem.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "plugin/backends/interface/backend_type.h"

namespace mooring {

inline constexpr std::string_view kQuotaKey = "quota";
inline constexpr std::string_view kEnforced = "enforced", kAdvisory = "advisory";  // advisory: no size is enforced

// Empty: the key is not given.
inline std::string QuotaWordOf(const PoolConfig& pool) {
  const auto found = pool.own_keys.find(std::string(kQuotaKey));
  return found == pool.own_keys.end() ? "" : found->second;
}

inline bool IsAdvisory(const PoolConfig& pool) { return QuotaWordOf(pool) == kAdvisory; }

inline absl::Status CheckQuotaWord(const std::string& quota) {
  if (quota == kEnforced || quota == kAdvisory) return absl::OkStatus();
  return InvalidArgument("quota is {} or {}, not {}", kEnforced, kAdvisory, Quote(quota));
}

}  // namespace mooring
