// The locks of names and ids in the catalog. A call takes the name first, then ids, then the room of the pool
// (PoolRoom). The node side and the other processes on the state directory share the locks. Such processes are an old
// and a new plugin during an update, or a controller beside a node.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/keyed_lock.h"
#include "plugin/model/call.h"

namespace mooring {

// Names from orchestrators. Errors name the call that creates objects with such names.
struct NameKind {
  std::string_view prefix;  // of the lock's key
  std::string_view call;
};
inline constexpr NameKind kVolumeName = {"name:", "CreateVolume"};
inline constexpr NameKind kSnapshotName = {"snapshot name:", "CreateSnapshot"};
inline constexpr NameKind kGroupName = {"group name:", "CreateVolumeGroupSnapshot"};

// The key of something in the shared pool with that tag. An empty tag changes nothing.
std::string KeyIn(std::string_view tag, const std::string& key);

// The tag of the shared pool that a key belongs to, of KeyIn or of an id. Empty: none. KeyedLocks::AddFile gets such
// keys to the file of that pool, where they exclude the calls of other hosts, too.
std::string_view TagOfKey(std::string_view key);

// All of them wait until Call::wait_until, and are ABORTED then. `tag`: of the shared pool of the volume or snapshot.
absl::StatusOr<KeyedLocks::Hold> LockName(KeyedLocks& locks, const NameKind& kind, const std::string& name,
                                          const Call& call, std::string_view tag = {});
absl::StatusOr<KeyedLocks::Hold> LockId(KeyedLocks& locks, const std::string& id, const Call& call);

// Locks the ids in sorted order, so that two such calls never wait for each other.
absl::StatusOr<std::vector<KeyedLocks::Hold>> LockIds(KeyedLocks& locks, std::vector<std::string> ids,
                                                      const Call& call);

}  // namespace mooring
