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
#include "plugin/catalog/pool_room.h"
#include "plugin/catalog/store/catalog_store.h"
#include "plugin/catalog/volume_publications.h"
#include "plugin/catalog/volume_reconciler.h"
#include "plugin/model/call.h"
#include "plugin/model/volume_specs.h"

namespace mooring {

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
