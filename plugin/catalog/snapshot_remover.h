// Deletes snapshots with their records, and finishes or rolls back unfinished ones. The caller holds the locks of the
// set and, if it is `creating`, of its sources.
#ifndef MOORING_PLUGIN_CATALOG_SNAPSHOT_REMOVER_H_
#define MOORING_PLUGIN_CATALOG_SNAPSHOT_REMOVER_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "mounter/mounter.h"
#include "plugin/backends/pools.h"
#include "plugin/catalog/snapshot_sets.h"
#include "plugin/catalog/store/snapshot_store.h"
#include "plugin/model/volume_source.h"

namespace mooring {

class SnapshotRemover {
 public:
  SnapshotRemover(SnapshotStore& store, VolumeSource& volumes, const Pools& pools, Contents& contents)
      : store_(store), volumes_(volumes), pools_(pools), contents_(contents) {}

  // Moves a ready set to `deleting`, and deletes it.
  absl::Status Delete(SnapshotSet set);

  // Deletes an unfinished set. A set in use becomes ready again. ABORTED: the mount helper of a killed plugin still
  // makes the copy, so the sources stay as they are.
  absl::Status RollBack(const SnapshotSet& set, bool may_be_frozen);

  // creating or deleting -> ready if all images exist; otherwise the set is deleted. ABORTED as RollBack. If an image
  // cannot be looked up, nothing changes.
  absl::Status Settle(const SnapshotSet& unfinished);

 private:
  absl::StatusOr<bool> HasAllImages(const SnapshotSet& set) const;
  absl::Status ThawSources(const SnapshotSet& set);
  absl::Status DeleteImages(const SnapshotSet& set);

  SnapshotStore& store_;
  VolumeSource& volumes_;
  const Pools& pools_;
  Contents& contents_;
};

}  // namespace mooring

#endif  // MOORING_PLUGIN_CATALOG_SNAPSHOT_REMOVER_H_
