// Creates snapshots, single ones and groups.
//
// An interrupted copy is never finished later, because it would be of another instant than its record says. It is
// rolled back, the volumes are thawed (Contents::Thaw), and the repeated call begins anew.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "plugin/catalog/snapshot_sets.h"
#include "plugin/catalog/volume_catalog.h"

namespace mooring {

class SnapshotMaker {
 public:
  SnapshotMaker(SnapshotStore& store, VolumeCatalog& volumes, const Pools& pools, KeyedLocks& locks, SnapshotSets& sets)
      : store_(store), volumes_(volumes), pools_(pools), locks_(locks), sets_(sets) {}

  // As SnapshotCatalog::Create and CreateGroup.
  absl::StatusOr<SnapshotSet> FindOrMake(const std::string& name, bool is_group,
                                         const std::vector<std::string>& volume_ids, const Call& call);

  // Finishes or rolls back an unfinished set, which holds the name. The caller holds the lock of the name.
  absl::Status ClearName(const SnapshotSet& unfinished, const Call& call);

 private:
  absl::StatusOr<SnapshotSet> Make(const std::string& name, bool is_group, const std::vector<std::string>& volume_ids,
                                   const Call& call);
  absl::StatusOr<CopySource> FindSource(const std::string& volume_id);
  absl::Status InsertWithRoom(const SnapshotSet& set, const Call& call);
  absl::Status Populate(const SnapshotSet& set, const std::vector<CopySource>& sources);

  SnapshotStore& store_;
  VolumeCatalog& volumes_;
  const Pools& pools_;
  KeyedLocks& locks_;
  SnapshotSets& sets_;
};

}  // namespace mooring
