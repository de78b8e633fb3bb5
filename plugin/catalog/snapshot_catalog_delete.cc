// Deletes snapshots, rolls back unfinished ones, and reconciles at the start.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>

#include "base/log.h"
#include "base/status.h"
#include "plugin/catalog/snapshot_catalog.h"
#include "plugin/model/repeat.h"

namespace mooring {

// Moves a ready set to `deleting`, and deletes it.
absl::Status SnapshotCatalog::DeleteSet(Set set) {
  if (set.state == SnapshotState::kReady) {
    const absl::StatusOr<bool> moved = store_.Move(set.id, SnapshotState::kReady, SnapshotState::kDeleting);
    // Only deletion makes room on a full disk, so it goes on without the state. A process that is killed then leaves a
    // ready row without an image, which the next Delete removes.
    const bool full = absl::IsResourceExhausted(moved.status());
    if (!full && !moved.ok()) return moved.status();
    if (!full && !*moved) return Aborted(fmt::format("another process is changing {}: call again later", set.id));
    set.state = SnapshotState::kDeleting;
  }
  return DeleteImagesAndRecords(set, false);
}

// Deletes an unfinished set. A set in use becomes ready again. ABORTED: the mount helper of a killed plugin still makes
// the copy, so the sources stay as they are.
absl::Status SnapshotCatalog::DeleteImagesAndRecords(const Set& set, bool may_be_frozen) {
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

// creating or deleting -> ready if all images exist; otherwise the set is deleted. ABORTED as DeleteImagesAndRecords.
// If an image cannot be looked up, nothing changes.
absl::Status SnapshotCatalog::Settle(const Set& unfinished) {
  const log::Fields fields = {{"snapshot", unfinished.id}, {"name", unfinished.name}};
  const bool creating = unfinished.state == SnapshotState::kCreating;
  MOORING_ASSIGN_OR_RETURN(const bool has_all, HasAllImages(unfinished));
  if (!has_all) {
    MOORING_RETURN_IF_ERROR(DeleteImagesAndRecords(unfinished, creating));
    log::Info(creating ? "rolled back an interrupted snapshot" : "finished the deletion of a snapshot", fields);
    return absl::OkStatus();
  }
  if (creating) MOORING_RETURN_IF_ERROR(ThawSources(unfinished));
  MOORING_RETURN_IF_ERROR(store_.Move(unfinished.id, unfinished.state, SnapshotState::kReady).status());
  log::Info(creating ? "finished an interrupted snapshot" : "rolled back the deletion of a snapshot", fields);
  return absl::OkStatus();
}

absl::StatusOr<bool> SnapshotCatalog::HasAllImages(const Set& set) const {
  bool has_all = true;
  for (const SnapshotRecord& snapshot : set.snapshots) {
    MOORING_ASSIGN_OR_RETURN(const Pool* const pool, PoolOf(snapshot));
    const absl::Status found = pool->backend->Locate(snapshot.id).status();
    if (!found.ok() && !absl::IsNotFound(found)) return Unexpected(found);
    has_all = has_all && found.ok();
  }
  return has_all;
}

// An interrupted copy may have left its sources frozen.
absl::Status SnapshotCatalog::ThawSources(const Set& set) {
  for (const SnapshotRecord& snapshot : set.snapshots) {
    const absl::StatusOr<NodeVolume> source = volumes_.Find(snapshot.source_volume_id);
    if (!source.ok()) continue;
    MOORING_RETURN_IF_ERROR(Unexpected(contents_.Thaw(source->path)));
  }
  return absl::OkStatus();
}

// Checks all snapshots for use before it deletes the first.
absl::Status SnapshotCatalog::DeleteImages(const Set& set) {
  for (const SnapshotRecord& snapshot : set.snapshots) {
    MOORING_ASSIGN_OR_RETURN(const Pool* const pool, PoolOf(snapshot));
    MOORING_RETURN_IF_ERROR(Unexpected(pool->backend->CheckUnused(snapshot.id)));
  }
  for (const SnapshotRecord& snapshot : set.snapshots) {
    MOORING_ASSIGN_OR_RETURN(const Pool* const pool, PoolOf(snapshot));
    MOORING_RETURN_IF_ERROR(Unexpected(pool->backend->Delete(snapshot.id)));
  }
  return absl::OkStatus();
}

absl::Status SnapshotCatalog::Reconcile() {
  MOORING_ASSIGN_OR_RETURN(const std::vector<SnapshotRecord> snapshots, store_.ListUnfinished());
  for (const SnapshotRecord& snapshot : snapshots) FinishInterrupted(Alone(snapshot));
  MOORING_ASSIGN_OR_RETURN(const std::vector<GroupRecord> groups, store_.ListUnfinishedGroups());
  for (const GroupRecord& group : groups) {
    MOORING_ASSIGN_OR_RETURN(const Set set, WithMembers(group));
    FinishInterrupted(set);
  }
  return ReportLostImages();
}

// While this process holds the locks of the name, the id and the sources, no other process works on the set.
void SnapshotCatalog::FinishInterrupted(const Set& listed) {
  const Call at_once = {std::chrono::steady_clock::now()};
  const auto name = LockName(listed.name, listed.is_group, at_once);
  if (!name.ok()) return;
  const absl::Status cleared = ClearName(listed, {std::chrono::steady_clock::now() + kHelperEnds});
  if (cleared.ok() || absl::IsAborted(cleared)) return;
  log::Warning("cannot clean up after an interrupted call: one snapshot is left as it is",
               {{"snapshot", listed.id}, {"name", listed.name}, {"cause", Message(cleared)}});
}

absl::Status SnapshotCatalog::ReportLostImages() {
  MOORING_ASSIGN_OR_RETURN(const std::vector<SnapshotRecord> snapshots,
                           store_.ListReady({.most = std::numeric_limits<std::int64_t>::max()}));
  for (const SnapshotRecord& record : snapshots) {
    if (const absl::Status found = Locate(record.id).status(); !found.ok()) {
      log::Error("a snapshot has lost its image", {{"snapshot", record.id}, {"cause", Message(found)}});
    }
  }
  return absl::OkStatus();
}

}  // namespace mooring
