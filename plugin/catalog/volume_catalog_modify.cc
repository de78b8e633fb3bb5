// Changing what of a volume can be changed while it is in use.
#include <utility>

#include "base/log.h"
#include "base/status.h"
#include "plugin/catalog/volume_catalog.h"

namespace mooring {

// The record comes first: what is staged from now on is as it says. Killed after it, the same call again, or the next
// stage, tells the rest.
absl::Status VolumeCatalog::Modify(const ModifySpec& spec, const Apply& apply, const Call& call) {
  MOORING_ASSIGN_OR_RETURN(const KeyedLocks::Hold hold, Lock(spec.volume_id, call));
  MOORING_ASSIGN_OR_RETURN(const VolumeRecord record, FindReady(spec.volume_id));
  MOORING_ASSIGN_OR_RETURN(const Pool* const pool, PoolOf(record));
  MOORING_RETURN_IF_ERROR(CheckPossible(spec.change, pool->kind));
  MOORING_ASSIGN_OR_RETURN(NodeVolume volume, Find(spec.volume_id));
  volume.tuning = With(record.tuning, spec.change);
  const bool is_new = volume.tuning != record.tuning;
  if (is_new) MOORING_RETURN_IF_ERROR(store_.SetTuning(record.id, volume.tuning));
  absl::Status applied = Unexpected(apply(volume));
  if (applied.ok() || !is_new) return applied;
  volume.tuning = record.tuning;
  absl::Status undone = store_.SetTuning(record.id, record.tuning);
  if (undone.ok()) undone = apply(volume);
  if (!undone.ok()) {
    log::Warning("a change of a volume that failed is not taken back everywhere",
                 {{"volume", record.id}, {"cause", Message(undone)}});
  }
  return applied;
}

}  // namespace mooring
