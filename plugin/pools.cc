#include "plugin/pools.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/quote.h"
#include "base/status.h"

namespace mooring {

absl::StatusOr<const Pool*> Pools::Find(std::string_view name) const {
  const auto found = std::find_if(pools_.begin(), pools_.end(), [name](const Pool& pool) { return pool.name == name; });
  if (found != pools_.end()) return &*found;
  std::string names;
  for (const Pool& pool : pools_) names += (names.empty() ? "" : ", ") + pool.name;
  return InvalidArgument(fmt::format("pool {} is not one of this plugin's: {}", Quote(std::string(name)), names));
}

}  // namespace mooring
