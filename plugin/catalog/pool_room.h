// How much more a pool may promise, and the lock that keeps two calls from promising the same room.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "base/keyed_lock.h"
#include "plugin/backends/pools.h"
#include "plugin/catalog/store/catalog_store.h"
#include "plugin/catalog/store/snapshot_store.h"
#include "plugin/model/call.h"
#include "plugin/model/volume_specs.h"

namespace mooring {

// The room that a pool can still promise to volumes and snapshots (Pool::overcommit).
class PoolRoom {
 public:
  PoolRoom(CatalogStore& volumes, SnapshotStore& snapshots, KeyedLocks& locks)
      : volumes_(volumes), snapshots_(snapshots), locks_(locks) {}

  // Returns a lock on the room of a pool, none if the pool has no limit. Keep it until the row or its new size is
  // written: from then on the row takes the room, in any state.
  // RESOURCE_EXHAUSTED: the pool has less room left. OUT_OF_RANGE: the empty pool has less room.
  absl::StatusOr<std::optional<KeyedLocks::Hold>> Lock(const Pool& pool, std::uint64_t more_bytes, const Call& call);

  absl::StatusOr<CapacityInfo> Capacity(const Pool& pool, std::uint64_t minimum_bytes);

 private:
  struct Room {
    std::uint64_t left = 0;  // bytes for new volumes and snapshots
    std::uint64_t most = 0;  // bytes that the volumes of an empty pool can have
    BackendCapacity capacity;
  };
  absl::StatusOr<Room> RoomIn(const Pool& pool);

  CatalogStore& volumes_;
  SnapshotStore& snapshots_;
  KeyedLocks& locks_;
};

}  // namespace mooring
