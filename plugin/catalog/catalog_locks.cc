#include "plugin/catalog/catalog_locks.h"

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "base/text/quote.h"
#include "plugin/model/volume_id.h"

namespace mooring {

namespace {

constexpr std::string_view kInPool = "pool ", kBehindTag = ": ";

}  // namespace

std::string KeyIn(std::string_view tag, const std::string& key) {
  return tag.empty() ? key : std::string(kInPool).append(tag).append(kBehindTag) + key;
}

std::string_view TagOfKey(std::string_view key) {
  constexpr std::size_t kDigits = 2 * kPoolTagBytes;
  if (!key.starts_with(kInPool)) return TagOfId(key);
  key.remove_prefix(kInPool.size());
  return key.size() > kDigits && key.substr(kDigits).starts_with(kBehindTag) ? key.substr(0, kDigits)
                                                                             : std::string_view();
}

absl::StatusOr<KeyedLocks::Hold> LockName(KeyedLocks& locks, const NameKind& kind, const std::string& name,
                                          const Call& call, std::string_view tag) {
  absl::StatusOr<KeyedLocks::Hold> hold =
      locks.Acquire(KeyIn(tag, std::string(kind.prefix) + name), "name", call.wait_until);
  if (!absl::IsAborted(hold.status())) return hold;
  return Aborted("another {} for {} is still under way: call again later", kind.call, Quote(name));
}

absl::StatusOr<KeyedLocks::Hold> LockId(KeyedLocks& locks, const std::string& id, const Call& call) {
  return locks.Acquire(id, IsVolumeId(id) ? "volume" : IsSnapshotId(id) ? "snapshot" : "group", call.wait_until);
}

absl::StatusOr<std::vector<KeyedLocks::Hold>> LockIds(KeyedLocks& locks, std::vector<std::string> ids,
                                                      const Call& call) {
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  std::vector<KeyedLocks::Hold> holds;
  holds.reserve(ids.size());
  for (const std::string& id : ids) {
    MOORING_ASSIGN_OR_RETURN(KeyedLocks::Hold hold, LockId(locks, id, call));
    holds.push_back(std::move(hold));
  }
  return holds;
}

}  // namespace mooring
