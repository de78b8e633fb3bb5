// Finishes or rolls back the unfinished changes of killed processes, and compares the records with the pools.
//
// A row in `creating` or `deleting` may be older than its image, because an administrator may have put back an old copy
// of the catalog. So no data is deleted because of such a row, and the orchestrator repeats its call.
#pragma once

#include <functional>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "plugin/catalog/volume_lookup.h"

namespace mooring {

// Whether a directory that was there before may become the volume: it is never deleted.
bool MayAdopt(const VolumeRecord& record);

// Deletes volumes with their records, and rolls back unfinished ones. The caller holds the lock of the
// volume, or of its name while it creates it.
class VolumeRemover {
 public:
  VolumeRemover(CatalogStore& store, VolumeLookup& lookup, const Pools& pools, Contents& contents)
      : store_(store), lookup_(lookup), pools_(pools), contents_(contents) {}

  // Moves the row to `deleting` and deletes the volume and the row. A volume in use stays as it is, or becomes ready
  // again. `check` is called once the volume is known to be unused; its error is returned, and the volume is kept.
  // FAILED_PRECONDITION: nothing is deleted. UNAVAILABLE: a part may be gone, and the next call continues.
  absl::Status Delete(const VolumeRecord& record, const std::function<absl::Status()>& check = absl::OkStatus);

  // Deletes the volume of an unfinished row. ABORTED: the mount helper of a killed plugin still copies it, so the
  // source stays as it is.
  absl::Status RollBack(const VolumeRecord& record, bool may_be_frozen);

  // Removes the volume of an unfinished row. A directory that may have been there before gets its name back.
  absl::Status Remove(Backend& backend, const VolumeRecord& record);

  // A kill or a failed deletion may have left a whole volume without its name. A failure is only logged.
  void RestoreName(const VolumeRecord& record);

  // An interrupted copy may have left its source frozen.
  absl::Status ThawSource(const VolumeRecord& record);

 private:
  absl::Status MarkDeleting(const VolumeRecord& record);
  absl::Status SetAside(Backend& backend, const VolumeRecord& record, const std::string& kept,
                        const std::function<absl::Status()>& begin);
  absl::Status DeleteWithName(Backend& backend, const VolumeRecord& record, const std::function<absl::Status()>& begin);

  CatalogStore& store_;
  VolumeLookup& lookup_;
  const Pools& pools_;
  Contents& contents_;
};

class VolumeReconciler {
 public:
  VolumeReconciler(CatalogStore& store, SnapshotStore& snapshots, const Pools& pools, KeyedLocks& locks,
                   VolumeLookup& lookup, VolumeRemover& remover)
      : store_(store), snapshots_(snapshots), pools_(pools), locks_(locks), lookup_(lookup), remover_(remover) {}

  // Runs at the start, before any call. Images without a record are only logged. It skips volumes that another process
  // has locked, and pools for ReconcilePool.
  absl::Status Reconcile();

  // The same for a pool whose server may not answer at the start. Calls for its volumes may run. An error: work is
  // left.
  absl::Status ReconcilePool(const std::string& pool);

  // Whether the image of an unfinished row stays. A copy gets its name when it is whole, so the orchestrator may know
  // it. A volume that was created empty stays if something was written to it.
  absl::StatusOr<bool> HasDataToKeep(const VolumeRecord& unfinished) const;

  // creating or deleting -> ready if there is data to keep; otherwise the row is deleted. ABORTED as
  // VolumeRemover::RollBack. The caller holds the locks of the volume and of its source.
  absl::Status Settle(const VolumeRecord& unfinished);

 private:
  absl::Status FinishInterrupted(const VolumeRecord& listed);
  std::set<std::string> IdsInPools() const;
  absl::Status CompareWithPools();
  void CompareSize(const VolumeRecord& record);

  CatalogStore& store_;
  SnapshotStore& snapshots_;
  const Pools& pools_;
  KeyedLocks& locks_;
  VolumeLookup& lookup_;
  VolumeRemover& remover_;
};

}  // namespace mooring
