#include "plugin/catalog/snapshot_sets.h"

#include <fmt/format.h>

#include <utility>

#include "base/log.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "plugin/catalog/volume_lookup.h"

namespace mooring {
namespace {

absl::StatusOr<std::optional<SnapshotSet>> Alone(const absl::StatusOr<std::optional<SnapshotRecord>>& snapshot) {
  if (!snapshot.ok()) return snapshot.status();
  return *snapshot ? std::optional<SnapshotSet>(SetOf(**snapshot)) : std::nullopt;
}

}  // namespace

SnapshotSet SetOf(const SnapshotRecord& snapshot) {
  return {
      .id = snapshot.id, .name = snapshot.name, .is_group = false, .state = snapshot.state, .snapshots = {snapshot}};
}

// A group without members was deleted after it was read.
absl::StatusOr<std::optional<SnapshotSet>> SnapshotSets::WithMembers(absl::StatusOr<std::optional<GroupRecord>> group) {
  if (!group.ok()) return group.status();
  if (!*group) return std::optional<SnapshotSet>();
  MOORING_ASSIGN_OR_RETURN(std::vector<SnapshotRecord> members, store_.Members((*group)->id));
  if (members.empty()) return std::optional<SnapshotSet>();
  return SnapshotSet{.id = std::move((*group)->id),
                     .name = std::move((*group)->name),
                     .is_group = true,
                     .state = (*group)->state,
                     .snapshots = std::move(members)};
}

absl::StatusOr<std::optional<SnapshotSet>> SnapshotSets::Find(const std::string& id, bool is_group) {
  return is_group ? WithMembers(store_.FindGroupById(id)) : Alone(store_.FindById(id));
}

absl::StatusOr<std::optional<SnapshotSet>> SnapshotSets::FindNamed(const std::string& name, bool is_group,
                                                                   std::string_view tag) {
  return is_group ? WithMembers(store_.FindGroupByName(name, tag)) : Alone(store_.FindByName(name, tag));
}

absl::StatusOr<std::vector<SnapshotSet>> SnapshotSets::ListUnfinished() {
  std::vector<SnapshotSet> sets;
  MOORING_ASSIGN_OR_RETURN(const std::vector<SnapshotRecord> snapshots, store_.ListUnfinished());
  for (const SnapshotRecord& snapshot : snapshots) sets.push_back(SetOf(snapshot));
  MOORING_ASSIGN_OR_RETURN(const std::vector<GroupRecord> groups, store_.ListUnfinishedGroups());
  for (const GroupRecord& group : groups) {
    MOORING_ASSIGN_OR_RETURN(std::optional<SnapshotSet> set, WithMembers(group));
    if (set) sets.push_back(*std::move(set));
  }
  return sets;
}

absl::Status SnapshotSets::Delete(SnapshotSet set) {
  if (set.state == SnapshotState::kReady) {
    const absl::StatusOr<bool> moved = store_.Move(set.id, SnapshotState::kReady, SnapshotState::kDeleting);
    // Only deletion makes room on a full disk, so it goes on without the state. A process that is killed then leaves a
    // ready row without an image, which the next Delete removes.
    const bool full = absl::IsResourceExhausted(moved.status());
    if (!full && !moved.ok()) return moved.status();
    if (!full && !*moved) return Aborted("another process is changing {}: call again later", set.id);
    set.state = SnapshotState::kDeleting;
  }
  return RollBack(set, false);
}

absl::Status SnapshotSets::RollBack(const SnapshotSet& set, bool may_be_frozen) {
  const absl::Status deleted = DeleteImages(set);
  if (absl::IsAborted(deleted)) return deleted;
  if (may_be_frozen) MOORING_RETURN_IF_ERROR(ThawSources(set));
  if (deleted.ok()) return store_.Delete(set.id);
  const absl::StatusOr<bool> is_whole = HasAllImages(set);
  if (is_whole.ok() && !*is_whole) {
    return Unfinished(deleted, fmt::format("snapshot {} may be deleted in part, call again to go on", Quote(set.id)));
  }
  const bool in_use = set.state == SnapshotState::kDeleting && absl::IsFailedPrecondition(deleted);
  if (in_use && is_whole.ok()) {
    MOORING_RETURN_IF_ERROR(store_.Move(set.id, SnapshotState::kDeleting, SnapshotState::kReady).status());
  }
  return deleted;
}

absl::Status SnapshotSets::Settle(const SnapshotSet& unfinished) {
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

absl::StatusOr<bool> SnapshotSets::HasAllImages(const SnapshotSet& set) const {
  bool has_all = true;
  for (const SnapshotRecord& snapshot : set.snapshots) {
    MOORING_ASSIGN_OR_RETURN(const Pool* const pool, PoolOf(pools_, snapshot));
    const absl::Status found = pool->backend->Locate(snapshot.id).status();
    if (!found.ok() && !absl::IsNotFound(found)) return Unexpected(found);
    has_all = has_all && found.ok();
    if (!has_all || set.state != SnapshotState::kCreating) continue;
    MOORING_ASSIGN_OR_RETURN(has_all, pool->backend->IsFinished(snapshot.id));
  }
  return has_all;
}

// An interrupted copy may have left its sources frozen.
absl::Status SnapshotSets::ThawSources(const SnapshotSet& set) {
  for (const SnapshotRecord& snapshot : set.snapshots) {
    const absl::StatusOr<NodeVolume> source = volumes_.Find(snapshot.source_volume_id);
    if (!source.ok() || !MayBeFrozen(source->kind)) continue;
    MOORING_RETURN_IF_ERROR(Unexpected(contents_.Thaw(StorageOf(*source))));
  }
  return absl::OkStatus();
}

// Checks all snapshots for use before it deletes the first.
absl::Status SnapshotSets::DeleteImages(const SnapshotSet& set) {
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
