// Changes the settings of a volume that is in use.
#include <utility>

#include "base/log.h"
#include "base/status.h"
#include "plugin/catalog/volume_catalog.h"

namespace mooring {

// The record is changed first, so every later stage uses it. After a kill the same call or the next stage applies the
// rest.
absl::Status VolumeCatalog::Modify(const ModifySpec& spec, const Apply& apply, const Call& call) {
  MOORING_ASSIGN_OR_RETURN(const KeyedLocks::Hold hold, Lock(spec.volume_id, call));
  MOORING_ASSIGN_OR_RETURN(const VolumeRecord record, FindReady(spec.volume_id));
  MOORING_ASSIGN_OR_RETURN(const Pool* const pool, PoolOf(record));
  MOORING_RETURN_IF_ERROR(CheckPossible(spec.change, pool->traits()));
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
    log::Warning("a failed change of a volume is not rolled back everywhere",
                 {{"volume", record.id}, {"cause", Message(undone)}});
  }
  return applied;
}

}  // namespace mooring
