#include "plugin/catalog/snapshot_remover.h"

#include <fmt/format.h>

#include "base/log.h"
#include "base/status.h"
#include "plugin/catalog/volume_lookup.h"

namespace mooring {

absl::Status SnapshotRemover::Delete(SnapshotSet set) {
  if (set.state == SnapshotState::kReady) {
    const absl::StatusOr<bool> moved = store_.Move(set.id, SnapshotState::kReady, SnapshotState::kDeleting);
    // Only deletion makes room on a full disk, so it goes on without the state. A process that is killed then leaves a
    // ready row without an image, which the next Delete removes.
    const bool full = absl::IsResourceExhausted(moved.status());
    if (!full && !moved.ok()) return moved.status();
    if (!full && !*moved) return Aborted(fmt::format("another process is changing {}: call again later", set.id));
    set.state = SnapshotState::kDeleting;
  }
  return RollBack(set, false);
}

absl::Status SnapshotRemover::RollBack(const SnapshotSet& set, bool may_be_frozen) {
  const absl::Status deleted = DeleteImages(set);
  if (absl::IsAborted(deleted)) return deleted;
  if (may_be_frozen) MOORING_RETURN_IF_ERROR(ThawSources(set));
  if (deleted.ok()) return store_.Delete(set.id);
  const bool in_use = set.state == SnapshotState::kDeleting && absl::IsFailedPrecondition(deleted);
  if (in_use && HasAllImages(set).value_or(false)) {
    MOORING_RETURN_IF_ERROR(store_.Move(set.id, SnapshotState::kDeleting, SnapshotState::kReady).status());
  }
  return deleted;
}

absl::Status SnapshotRemover::Settle(const SnapshotSet& unfinished) {
  const log::Fields fields = {{"snapshot", unfinished.id}, {"name", unfinished.name}};
  const bool creating = unfinished.state == SnapshotState::kCreating;
  MOORING_ASSIGN_OR_RETURN(const bool has_all, HasAllImages(unfinished));
  if (!has_all) {
    MOORING_RETURN_IF_ERROR(RollBack(unfinished, creating));
    log::Info(creating ? "rolled back an interrupted snapshot" : "finished the deletion of a snapshot", fields);
    return absl::OkStatus();
  }
  if (creating) MOORING_RETURN_IF_ERROR(ThawSources(unfinished));
  MOORING_RETURN_IF_ERROR(store_.Move(unfinished.id, unfinished.state, SnapshotState::kReady).status());
  log::Info(creating ? "finished an interrupted snapshot" : "rolled back the deletion of a snapshot", fields);
  return absl::OkStatus();
}

absl::StatusOr<bool> SnapshotRemover::HasAllImages(const SnapshotSet& set) const {
  bool has_all = true;
  for (const SnapshotRecord& snapshot : set.snapshots) {
    MOORING_ASSIGN_OR_RETURN(const Pool* const pool, PoolOf(pools_, snapshot));
    const absl::Status found = pool->backend->Locate(snapshot.id).status();
    if (!found.ok() && !absl::IsNotFound(found)) return Unexpected(found);
    has_all = has_all && found.ok();
  }
  return has_all;
}

// An interrupted copy may have left its sources frozen.
absl::Status SnapshotRemover::ThawSources(const SnapshotSet& set) {
  for (const SnapshotRecord& snapshot : set.snapshots) {
    const absl::StatusOr<NodeVolume> source = volumes_.Find(snapshot.source_volume_id);
    if (!source.ok()) continue;
    MOORING_RETURN_IF_ERROR(Unexpected(contents_.Thaw(source->path)));
  }
  return absl::OkStatus();
}

// Checks all snapshots for use before it deletes the first.
absl::Status SnapshotRemover::DeleteImages(const SnapshotSet& set) {
  for (const SnapshotRecord& snapshot : set.snapshots) {
    MOORING_ASSIGN_OR_RETURN(const Pool* const pool, PoolOf(pools_, snapshot));
    MOORING_RETURN_IF_ERROR(Unexpected(pool->backend->CheckUnused(snapshot.id)));
  }
  for (const SnapshotRecord& snapshot : set.snapshots) {
    MOORING_ASSIGN_OR_RETURN(const Pool* const pool, PoolOf(pools_, snapshot));
    MOORING_RETURN_IF_ERROR(Unexpected(pool->backend->Delete(snapshot.id)));
  }
  return absl::OkStatus();
}

}  // namespace mooring
