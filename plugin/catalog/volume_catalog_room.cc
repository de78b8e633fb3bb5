// The limit of a pool: Pool::overcommit.
#include <fmt/format.h>

#include <algorithm>

#include "base/status.h"
#include "plugin/catalog/volume_catalog.h"

namespace mooring {
namespace {

std::uint64_t PromisedAtMost(double overcommit, std::uint64_t total) {
  const double most = overcommit * static_cast<double>(total);
  // A volume size is a 64-bit integer, and a double can be larger.
  return most >= static_cast<double>(INT64_MAX) ? INT64_MAX : static_cast<std::uint64_t>(most);
}

}  // namespace

absl::StatusOr<VolumeCatalog::Room> VolumeCatalog::RoomIn(const Pool& pool) {
  MOORING_ASSIGN_OR_RETURN(const BackendCapacity capacity, pool.backend->Capacity());
  if (!pool.overcommit) return Room{.left = capacity.available, .most = capacity.available, .capacity = capacity};
  MOORING_ASSIGN_OR_RETURN(const std::uint64_t volumes, store_.BytesIn(pool.name));
  MOORING_ASSIGN_OR_RETURN(const std::uint64_t snapshots, snapshots_.BytesIn(pool.name));
  const std::uint64_t promised = volumes + snapshots;
  const std::uint64_t most = PromisedAtMost(*pool.overcommit, capacity.total);
  return Room{.left = most - std::min(most, promised), .most = most, .capacity = capacity};
}

// Two calls that find room for one volume must not both take it.
absl::StatusOr<std::optional<KeyedLocks::Hold>> VolumeCatalog::HoldRoom(const Pool& pool, std::uint64_t more_bytes,
                                                                        const Call& call) {
  if (!pool.overcommit) return std::optional<KeyedLocks::Hold>();
  MOORING_ASSIGN_OR_RETURN(KeyedLocks::Hold hold, locks_.Acquire("pool:" + pool.name, "pool", call.wait_until));
  const absl::StatusOr<Room> room = RoomIn(pool);
  if (!room.ok()) return Unexpected(room.status());
  if (more_bytes <= room->left) return std::optional<KeyedLocks::Hold>(std::move(hold));
  if (more_bytes > room->most) {
    return OutOfRange(fmt::format("{} are needed, and pool {} can hold at most {}: ask for less", SizeText(more_bytes),
                                  pool.name, SizeText(room->most)));
  }
  return ResourceExhausted(
      fmt::format("{} are needed, and pool {} has {} of {} left: delete volumes, or raise its limit (--pool)",
                  SizeText(more_bytes), pool.name, SizeText(room->left), SizeText(room->most)));
}

absl::StatusOr<bool> VolumeCatalog::InsertWithRoom(const VolumeRecord& record, const Call& call) {
  MOORING_ASSIGN_OR_RETURN(const Pool* const pool, PoolOf(record));
  MOORING_ASSIGN_OR_RETURN(const std::optional<KeyedLocks::Hold> room, HoldRoom(*pool, record.bytes, call));
  return store_.Insert(record);
}

absl::StatusOr<CapacityInfo> VolumeCatalog::Capacity(const CapacitySpec& spec) {
  if (!spec.possible || !IsHere(spec.topology)) return CapacityInfo();
  const absl::StatusOr<const Pool*> pool = pools_.Find(spec.pool);
  if (!pool.ok()) return CapacityInfo();
  const absl::StatusOr<Room> room = RoomIn(**pool);
  if (!room.ok()) return Unexpected(room.status());
  const std::uint64_t usable = room->left - room->left % kVolumeGranularity;
  return CapacityInfo{.available = room->left,
                      .largest = std::min(usable, room->capacity.largest_volume),
                      .smallest = spec.minimum_bytes};
}

}  // namespace mooring
