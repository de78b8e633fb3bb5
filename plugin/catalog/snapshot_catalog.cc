#include "plugin/catalog/snapshot_catalog.h"

#include <fmt/format.h>

#include <limits>
#include <set>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "plugin/catalog/catalog_locks.h"
#include "plugin/catalog/page.h"
#include "plugin/catalog/volume_lookup.h"
#include "plugin/model/volume_id.h"

namespace mooring {
namespace {

absl::Status NoSuchSnapshot(const std::string& id) { return NotFound("snapshot {} does not exist", Quote(id)); }

std::set<std::string> IdsOf(const std::vector<SnapshotRecord>& snapshots) {
  std::set<std::string> ids;
  for (const SnapshotRecord& snapshot : snapshots) ids.insert(snapshot.id);
  return ids;
}

absl::Status CheckMembers(const GroupSpec& spec, const std::vector<SnapshotRecord>& members) {
  const std::set<std::string> named(spec.snapshot_ids.begin(), spec.snapshot_ids.end());
  if (named.empty() || named == IdsOf(members)) return absl::OkStatus();
  return InvalidArgument("snapshot_ids are not the members of group snapshot {}: name all {} of them, or none",
                         Quote(spec.id), members.size());
}

}  // namespace

SnapshotCatalog::SnapshotCatalog(SnapshotStore& store, VolumeCatalog& volumes, const Pools& pools, KeyedLocks& locks,
                                 Contents& contents)
    : store_(store),
      pools_(pools),
      locks_(locks),
      sets_(store, volumes, pools, contents),
      maker_(store, volumes, pools, locks, sets_) {}

absl::StatusOr<SnapshotRecord> SnapshotCatalog::Create(const CreateSnapshotSpec& spec, const Call& call) {
  MOORING_ASSIGN_OR_RETURN(const SnapshotSet set,
                           maker_.FindOrMake(spec.name, /*is_group=*/false, {spec.source_volume_id}, call));
  return set.snapshots.front();
}

absl::StatusOr<SnapshotSet> SnapshotCatalog::CreateGroup(const CreateGroupSpec& spec, const Call& call) {
  return maker_.FindOrMake(spec.name, /*is_group=*/true, spec.source_volume_ids, call);
}

absl::StatusOr<SnapshotRecord> SnapshotCatalog::Get(const std::string& id) {
  if (!IsSnapshotId(id)) return NoSuchSnapshot(id);
  MOORING_ASSIGN_OR_RETURN(std::optional<SnapshotRecord> record, store_.FindById(id));
  if (!record || record->state == SnapshotState::kCreating) return NoSuchSnapshot(id);
  if (record->state == SnapshotState::kDeleting) return NotFound("snapshot {} is being deleted", Quote(id));
  return *std::move(record);
}

absl::StatusOr<SnapshotCatalog::Image> SnapshotCatalog::Locate(const std::string& id) {
  MOORING_ASSIGN_OR_RETURN(const SnapshotRecord record, Get(id));
  MOORING_ASSIGN_OR_RETURN(const Pool* const pool, PoolOf(pools_, record));
  const absl::StatusOr<VolumeLocation> location = pool->backend->Locate(id);
  if (location.ok()) return Image{.snapshot = record, .path = location->path};
  return LostImage(fmt::format("snapshot {}", Quote(id)), location.status());
}

absl::StatusOr<SnapshotPage> SnapshotCatalog::List(const ListSnapshotsSpec& spec) {
  SnapshotPage page;
  const auto list = [&](std::int64_t after, std::size_t most) {
    return store_.ListReady(
        {.after = after, .most = most, .id = spec.snapshot_id, .source_volume_id = spec.source_volume_id});
  };
  const auto add = [&](const SnapshotRecord& record) {
    page.snapshots.push_back(record);
    return record.seq;
  };
  MOORING_ASSIGN_OR_RETURN(page.next, ReadPage(spec.after, spec.max_entries, list, add));
  return page;
}

absl::StatusOr<SnapshotSet> SnapshotCatalog::GetGroup(const GroupSpec& spec) {
  MOORING_ASSIGN_OR_RETURN(std::optional<SnapshotSet> group, sets_.Find(spec.id, /*is_group=*/true));
  if (!group || group->state != SnapshotState::kReady) {
    return NotFound("group snapshot {} does not exist", Quote(spec.id));
  }
  MOORING_RETURN_IF_ERROR(CheckMembers(spec, group->snapshots));
  return *std::move(group);
}

absl::Status SnapshotCatalog::DeleteGroup(const GroupSpec& spec, const Call& call) {
  if (!IsGroupId(spec.id)) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(const auto hold, LockIds(locks_, {spec.id}, call));
  MOORING_ASSIGN_OR_RETURN(const std::optional<SnapshotSet> group, sets_.Find(spec.id, /*is_group=*/true));
  if (!group || group->state == SnapshotState::kCreating) return absl::OkStatus();  // no call has returned its id
  MOORING_RETURN_IF_ERROR(CheckMembers(spec, group->snapshots));
  std::vector<std::string> members;
  for (const SnapshotRecord& snapshot : group->snapshots) members.push_back(snapshot.id);
  MOORING_ASSIGN_OR_RETURN(const auto in_use, LockIds(locks_, members, call));  // a copy of a member may be under way
  return sets_.Delete(*group);
}

absl::Status SnapshotCatalog::Delete(const std::string& id, const Call& call) {
  if (!IsSnapshotId(id)) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(const auto hold, LockIds(locks_, {id}, call));
  MOORING_ASSIGN_OR_RETURN(const std::optional<SnapshotRecord> snapshot, store_.FindById(id));
  if (!snapshot || snapshot->state == SnapshotState::kCreating) return absl::OkStatus();  // no call has returned its id
  if (!snapshot->group_id.empty()) {
    return InvalidArgument("snapshot {} is a member of group snapshot {}: delete that", Quote(id),
                           Quote(snapshot->group_id));
  }
  return sets_.Delete(SetOf(*snapshot));
}

absl::Status SnapshotCatalog::Reconcile(std::chrono::milliseconds patience) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<SnapshotSet> unfinished, sets_.ListUnfinished());
  for (const SnapshotSet& set : unfinished) FinishInterrupted(set, patience);
  return ReportLostImages();
}

// While this process holds the locks of the name, the id and the sources, no other process works on the set.
void SnapshotCatalog::FinishInterrupted(const SnapshotSet& listed, std::chrono::milliseconds patience) {
  const Call at_once = {std::chrono::steady_clock::now()};
  const NameKind& kind = listed.is_group ? kGroupName : kSnapshotName;
  const auto name = LockName(locks_, kind, listed.name, at_once, TagOfId(listed.id));
  if (!name.ok()) return;
  const absl::Status cleared = maker_.ClearName(listed, {std::chrono::steady_clock::now() + patience});
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
