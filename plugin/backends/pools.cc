#include "plugin/backends/pools.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "base/text/quote.h"
#include "plugin/model/secrets.h"

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

static std::string EncryptedPools(const Pools& pools) {
  std::vector<std::string_view> names;
  for (const Pool& pool : pools.all()) {
    if (pool.traits().encrypted) names.push_back(pool.name);
  }
  if (!names.empty()) return fmt::format("{}", fmt::join(names, ", "));
  return "this plugin has none: --pool name=NAME,backend=luks,path=DIRECTORY";
}

absl::Status CheckEncryption(std::optional<bool> asked, bool has_passphrase, const Pool& pool, const Pools& pools) {
  if (pool.traits().encrypted) {
    if (asked.value_or(true)) return absl::OkStatus();
    return InvalidArgument("parameter encrypted false: pool {} encrypts all of its volumes: name another pool",
                           pool.name);
  }
  // A user with a passphrase takes the volume for encrypted.
  if (!asked.value_or(has_passphrase)) return absl::OkStatus();
  return InvalidArgument("{}: pool {} has the backend {}, which does not encrypt: name a pool of backend luks ({})",
                         asked ? "parameter encrypted" : fmt::format("secret {}", kPassphraseSecret), pool.name,
                         ToString(pool.kind), EncryptedPools(pools));
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
