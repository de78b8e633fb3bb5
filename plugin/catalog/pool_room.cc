#include "plugin/catalog/pool_room.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/status.h"
#include "plugin/catalog/catalog_locks.h"
#include "plugin/model/volume_size.h"

namespace mooring {
namespace {

std::uint64_t PromisedAtMost(double overcommit, std::uint64_t total) {
  const double most = overcommit * static_cast<double>(total);
  // A volume size is a 64-bit integer, and a double can be larger.
  return most >= static_cast<double>(INT64_MAX) ? INT64_MAX : static_cast<std::uint64_t>(most);
}

}  // namespace

absl::StatusOr<PoolRoom::Room> PoolRoom::RoomIn(const Pool& pool) {
  const absl::StatusOr<BackendCapacity> capacity = pool.backend->Capacity();
  if (!capacity.ok()) return Unexpected(capacity.status());
  if (!pool.overcommit) return Room{.left = capacity->available, .most = capacity->available, .capacity = *capacity};
  MOORING_ASSIGN_OR_RETURN(const std::uint64_t volumes, volumes_.BytesIn(pool.name));
  MOORING_ASSIGN_OR_RETURN(const std::uint64_t snapshots, snapshots_.BytesIn(pool.name));
  const std::uint64_t promised = volumes + snapshots;
  const std::uint64_t most = PromisedAtMost(*pool.overcommit, capacity->total);
  return Room{.left = most - std::min(most, promised), .most = most, .capacity = *capacity};
}

// Two calls that find room for one volume must not both take it.
absl::StatusOr<std::optional<KeyedLocks::Hold>> PoolRoom::Lock(const Pool& pool, std::uint64_t more_bytes,
                                                               const Call& call) {
  if (!pool.overcommit) return std::optional<KeyedLocks::Hold>();
  MOORING_ASSIGN_OR_RETURN(KeyedLocks::Hold hold,
                           locks_.Acquire(KeyIn(pool.tag, "pool:" + pool.name), "pool", call.wait_until));
  MOORING_ASSIGN_OR_RETURN(const Room room, RoomIn(pool));
  if (more_bytes <= room.left) return std::optional<KeyedLocks::Hold>(std::move(hold));
  if (more_bytes > room.most) {
    return OutOfRange("{} are needed, and pool {} can hold at most {}: ask for less", SizeText(more_bytes), pool.name,
                      SizeText(room.most));
  }
  return ResourceExhausted("{} are needed, and pool {} has {} of {} left: delete volumes, or raise its limit (--pool)",
                           SizeText(more_bytes), pool.name, SizeText(room.left), SizeText(room.most));
}

absl::StatusOr<CapacityInfo> PoolRoom::Capacity(const Pool& pool, std::uint64_t minimum_bytes) {
  MOORING_ASSIGN_OR_RETURN(const Room room, RoomIn(pool));
  const std::uint64_t usable = room.left - room.left % kVolumeGranularity;
  return CapacityInfo{
      .available = room.left, .largest = std::min(usable, room.capacity.largest_volume), .smallest = minimum_bytes};
}

}  // namespace mooring
