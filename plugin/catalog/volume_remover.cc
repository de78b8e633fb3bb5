#include "plugin/catalog/volume_remover.h"

#include <fmt/format.h>

#include <optional>
#include <string>

#include "base/status.h"
#include "base/text/quote.h"
#include "plugin/model/volume_id.h"

namespace mooring {

absl::Status VolumeRemover::MarkDeleting(const VolumeRecord& record) {
  if (record.state == VolumeState::kDeleting) return absl::OkStatus();
  const absl::StatusOr<bool> moved = store_.Move(record.id, record.state, VolumeState::kDeleting);
  // Only deletion makes room on a full disk, so it goes on without the state. A process that is killed then leaves a
  // ready row without an image, which the next Delete removes.
  if (absl::IsResourceExhausted(moved.status()) && record.state == VolumeState::kReady) return absl::OkStatus();
  MOORING_RETURN_IF_ERROR(moved.status());
  return *moved ? absl::OkStatus()
                : Aborted("another process is changing volume {}: call again later", Quote(record.id));
}

// ListVolumes must not omit a volume in use, not even for a moment. So the row changes once the volume is unused.
absl::Status VolumeRemover::Delete(const VolumeRecord& record, const absl::Status& allowed) {
  MOORING_ASSIGN_OR_RETURN(const Pool* const pool, PoolOf(pools_, record));
  bool began = false;
  const absl::Status deleted = Unexpected(pool->backend->DeleteIfUnused(record.id, [&]() -> absl::Status {
    MOORING_RETURN_IF_ERROR(allowed);
    MOORING_RETURN_IF_ERROR(MarkDeleting(record));
    began = true;
    return absl::OkStatus();
  }));
  if (deleted.ok()) return store_.Delete(record.id);
  // Another process may still work on a row that was `deleting` before: only a volume in use becomes ready then.
  const bool ours = began && record.state == VolumeState::kReady;
  const bool in_use = absl::IsFailedPrecondition(deleted) && record.state == VolumeState::kDeleting;
  if ((ours || in_use) && pool->backend->Locate(record.id).ok()) {
    MOORING_RETURN_IF_ERROR(store_.Move(record.id, VolumeState::kDeleting, VolumeState::kReady).status());
    return deleted;
  }
  const bool begun_before = record.state == VolumeState::kDeleting;
  const std::string partly = fmt::format("volume {} may be deleted in part, call again to go on", Quote(record.id));
  return began || begun_before ? Unfinished(deleted, partly) : deleted;
}

// It deletes the image before the row becomes `deleting`, because VolumeReconciler keeps an image beside such a row.
absl::Status VolumeRemover::RollBack(const VolumeRecord& record, bool may_be_frozen) {
  if (record.state != VolumeState::kCreating) return Delete(record);
  MOORING_ASSIGN_OR_RETURN(const std::optional<VolumeRecord> now, store_.FindById(record.id));
  if (now && now->state != VolumeState::kCreating) {
    return Aborted("another process is changing volume {}: call again later", Quote(record.id));
  }
  MOORING_ASSIGN_OR_RETURN(const Pool* const pool, PoolOf(pools_, record));
  const absl::Status deleted = Unexpected(pool->backend->Delete(record.id));
  if (absl::IsAborted(deleted)) return deleted;
  if (may_be_frozen) MOORING_RETURN_IF_ERROR(ThawSource(record));
  MOORING_RETURN_IF_ERROR(deleted);
  return Delete(record);
}

// Snapshots are never mounted, so they are never frozen.
absl::Status VolumeRemover::ThawSource(const VolumeRecord& record) {
  if (!IsVolumeId(record.source)) return absl::OkStatus();
  const absl::StatusOr<NodeVolume> source = lookup_.Find(record.source);
  return source.ok() ? Unexpected(contents_.Thaw(source->path)) : absl::OkStatus();
}

}  // namespace mooring
