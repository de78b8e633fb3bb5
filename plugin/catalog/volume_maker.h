// Creates volumes, empty ones and copies of a snapshot or of another volume.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/keyed_lock.h"
#include "plugin/backends/pools.h"
#include "plugin/catalog/store/catalog_store.h"
#include "plugin/catalog/store/snapshot_store.h"
#include "plugin/catalog/volume_publications.h"
#include "plugin/catalog/volume_reconciler.h"
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

class VolumeMaker {
 public:
  // The node that holds the volumes.
  struct Node {
    std::string id;
    Segments topology;

    bool HasAll(const Segments& wanted) const;
    bool HasOneOf(const std::vector<Segments>& topologies) const;  // true if there is none
  };

  VolumeMaker(CatalogStore& store, const Pools& pools, KeyedLocks& locks, VolumeLookup& lookup, PoolRoom& room,
              VolumePublications& publications, VolumeRemover& remover, VolumeReconciler& reconciler, Node node)
      : store_(store),
        pools_(pools),
        locks_(locks),
        lookup_(lookup),
        room_(room),
        publications_(publications),
        remover_(remover),
        reconciler_(reconciler),
        node_(std::move(node)) {}

  // As VolumeCatalog::Create.
  absl::StatusOr<VolumeRecord> Create(const CreateVolumeSpec& spec, const Call& call);

  const Node& node() const { return node_; }

 private:
  std::string TagFor(const CreateVolumeSpec& spec) const;
  absl::Status CheckMatches(const VolumeRecord& existing, const CreateVolumeSpec& spec) const;
  absl::Status CheckSameDevice(const VolumeRecord& existing, const CreateVolumeSpec& spec);
  absl::Status CheckSameAccess(const VolumeRecord& existing, const CreateVolumeSpec& spec);
  absl::StatusOr<VolumeRecord> NewRecord(const CreateVolumeSpec& spec);
  absl::StatusOr<VolumeRecord> NewCopy(const CreateVolumeSpec& spec);
  absl::StatusOr<bool> InsertWithRoom(const VolumeRecord& record, const Call& call);

  absl::StatusOr<VolumeRecord> Finish(VolumeRecord record, const CreateVolumeSpec& spec);
  absl::Status Make(const Pool& pool, VolumeRecord& record, const CreateVolumeSpec& spec);
  absl::Status TakeName(const Pool& pool, const VolumeRecord& record);
  void RestoreName(const VolumeRecord& existing);
  absl::Status MakeIn(const Pool& pool, VolumeRecord& record, const CreateVolumeSpec& spec);
  absl::Status Copy(const Pool& pool, const VolumeRecord& record, const CreateVolumeSpec& spec);
  bool GiveUp(const VolumeRecord& record, bool may_be_frozen);  // whether nothing is left
  absl::Status ClearName(const VolumeRecord& unfinished, const Call& call);

  CatalogStore& store_;
  const Pools& pools_;
  KeyedLocks& locks_;
  VolumeLookup& lookup_;
  PoolRoom& room_;
  VolumePublications& publications_;
  VolumeRemover& remover_;
  VolumeReconciler& reconciler_;
  const Node node_;
};

}  // namespace mooring
