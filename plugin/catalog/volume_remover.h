// Deletes volumes with their records, and rolls back unfinished ones. The caller holds the lock of the
// volume, or of its name while it creates it.
#pragma once

#include "absl/status/status.h"
#include "plugin/catalog/volume_lookup.h"

namespace mooring {

class VolumeRemover {
 public:
  VolumeRemover(CatalogStore& store, VolumeLookup& lookup, const Pools& pools, Contents& contents)
      : store_(store), lookup_(lookup), pools_(pools), contents_(contents) {}

  // Moves the row to `deleting` and deletes the volume and the row. A volume in use stays as it is, or becomes ready
  // again. If `allowed` is an error, an unused volume is kept, and the error is returned. FAILED_PRECONDITION: nothing
  // is deleted. UNAVAILABLE: a part may be gone, and the next call continues.
  absl::Status Delete(const VolumeRecord& record, const absl::Status& allowed = absl::OkStatus());

  // Deletes the volume of an unfinished row. ABORTED: the mount helper of a killed plugin still copies it, so the
  // source stays as it is.
  absl::Status RollBack(const VolumeRecord& record, bool may_be_frozen);

  // An interrupted copy may have left its source frozen.
  absl::Status ThawSource(const VolumeRecord& record);

 private:
  absl::Status MarkDeleting(const VolumeRecord& record);

  CatalogStore& store_;
  VolumeLookup& lookup_;
  const Pools& pools_;
  Contents& contents_;
};

}  // namespace mooring
