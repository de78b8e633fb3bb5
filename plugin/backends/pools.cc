#include "plugin/backends/pools.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "base/text/quote.h"

namespace mooring {

absl::StatusOr<const Pool*> Pools::Find(std::string_view name) const {
  const auto found = std::find_if(pools_.begin(), pools_.end(), [name](const Pool& pool) { return pool.name == name; });
  if (found != pools_.end()) return &*found;
  std::string names;
  for (const Pool& pool : pools_) names += (names.empty() ? "" : ", ") + pool.name;
  return InvalidArgument("pool {} is not one of this plugin's: {}", Quote(std::string(name)), names);
}

bool Pools::AnyCan(bool BackendTraits::*ability) const {
  return std::any_of(pools_.begin(), pools_.end(), [ability](const Pool& pool) { return pool.traits().*ability; });
}

std::string NoBlockAccess(std::string_view pool, BackendKind kind) {
  return fmt::format("block access: pool {} has the backend {}, whose volumes are no block devices", pool,
                     ToString(kind));
}

const Pools& DefaultPoolOnly() {
  static const Pools* const kPools = [] {
    std::vector<Pool> pools;
    pools.push_back({.name = std::string(kDefaultPool)});
    return new Pools(std::move(pools));
  }();
  return *kPools;
}

}  // namespace mooring
