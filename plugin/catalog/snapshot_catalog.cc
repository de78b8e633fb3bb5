// Looks up snapshots. snapshot_catalog_create.cc creates them, snapshot_catalog_delete.cc deletes and reconciles them.
#include "plugin/catalog/snapshot_catalog.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "base/status.h"
#include "base/text/quote.h"
#include "plugin/model/volume_id.h"

namespace mooring {
namespace {

constexpr std::size_t kSnapshotChunk = 500;  // other reads can run between the chunks of a long list

absl::Status NoSuchSnapshot(const std::string& id) {
  return NotFound(fmt::format("snapshot {} does not exist", Quote(id)));
}

std::set<std::string> IdsOf(const std::vector<SnapshotRecord>& snapshots) {
  std::set<std::string> ids;
  for (const SnapshotRecord& snapshot : snapshots) ids.insert(snapshot.id);
  return ids;
}

absl::Status CheckMembers(const GroupSpec& spec, const std::vector<SnapshotRecord>& members) {
  const std::set<std::string> named(spec.snapshot_ids.begin(), spec.snapshot_ids.end());
  if (named.empty() || named == IdsOf(members)) return absl::OkStatus();
  return InvalidArgument(
      fmt::format("snapshot_ids are not the members of group snapshot {}: name all {} of them, or none", Quote(spec.id),
                  members.size()));
}

}  // namespace

SnapshotCatalog::SnapshotCatalog(SnapshotStore& store, VolumeCatalog& volumes, const Pools& pools, KeyedLocks& locks,
                                 Contents& contents)
    : store_(store), volumes_(volumes), pools_(pools), locks_(locks), contents_(contents) {}

SnapshotInfo SnapshotCatalog::ToInfo(const SnapshotRecord& record) {
  return {.id = record.id,
          .source_volume_id = record.source_volume_id,
          .group_id = record.group_id,
          .bytes = record.bytes,
          .created_at = record.created_at,
          .restore_bytes = record.restore_bytes};
}

GroupInfo SnapshotCatalog::ToInfo(const Set& group) {
  GroupInfo info = {.id = group.id, .created_at = group.snapshots.front().created_at, .snapshots = {}};
  for (const SnapshotRecord& snapshot : group.snapshots) info.snapshots.push_back(ToInfo(snapshot));
  return info;
}

absl::StatusOr<const Pool*> SnapshotCatalog::PoolOf(const SnapshotRecord& record) const {
  absl::StatusOr<const Pool*> pool = pools_.Find(record.pool);
  if (pool.ok()) return pool;
  return FailedPrecondition(fmt::format("snapshot {} lies in a pool that this plugin was not started with: {}",
                                        record.id, Message(pool.status())));
}

SnapshotCatalog::Set SnapshotCatalog::Alone(const SnapshotRecord& snapshot) {
  return {
      .id = snapshot.id, .name = snapshot.name, .is_group = false, .state = snapshot.state, .snapshots = {snapshot}};
}

absl::StatusOr<SnapshotCatalog::Set> SnapshotCatalog::WithMembers(const GroupRecord& group) {
  MOORING_ASSIGN_OR_RETURN(std::vector<SnapshotRecord> members, store_.Members(group.id));
  return Set{
      .id = group.id, .name = group.name, .is_group = true, .state = group.state, .snapshots = std::move(members)};
}

// A group without members was deleted after it was read.
absl::StatusOr<std::optional<SnapshotCatalog::Set>> SnapshotCatalog::WhileThere(const GroupRecord& group) {
  MOORING_ASSIGN_OR_RETURN(Set set, WithMembers(group));
  return set.snapshots.empty() ? std::nullopt : std::optional<Set>(std::move(set));
}

absl::StatusOr<std::optional<SnapshotCatalog::Set>> SnapshotCatalog::Find(const std::string& id, bool is_group) {
  if (!is_group) {
    MOORING_ASSIGN_OR_RETURN(const std::optional<SnapshotRecord> snapshot, store_.FindById(id));
    return snapshot ? std::optional<Set>(Alone(*snapshot)) : std::nullopt;
  }
  MOORING_ASSIGN_OR_RETURN(const std::optional<GroupRecord> group, store_.FindGroupById(id));
  if (!group) return std::optional<Set>();
  return WhileThere(*group);
}

absl::StatusOr<std::optional<SnapshotCatalog::Set>> SnapshotCatalog::FindNamed(const std::string& name, bool is_group) {
  if (!is_group) {
    MOORING_ASSIGN_OR_RETURN(const std::optional<SnapshotRecord> snapshot, store_.FindByName(name));
    return snapshot ? std::optional<Set>(Alone(*snapshot)) : std::nullopt;
  }
  MOORING_ASSIGN_OR_RETURN(const std::optional<GroupRecord> group, store_.FindGroupByName(name));
  if (!group) return std::optional<Set>();
  return WhileThere(*group);
}

// The key is no id. Errors name the snapshot, not the key.
absl::StatusOr<KeyedLocks::Hold> SnapshotCatalog::LockName(const std::string& name, bool is_group, const Call& call) {
  const std::string key = (is_group ? "group name:" : "snapshot name:") + name;
  absl::StatusOr<KeyedLocks::Hold> hold = locks_.Acquire(key, "name", call.wait_until);
  if (!absl::IsAborted(hold.status())) return hold;
  return Aborted(fmt::format("another {} for {} is still under way: call again later",
                             is_group ? "CreateVolumeGroupSnapshot" : "CreateSnapshot", Quote(name)));
}

// All calls lock in the same order, so that no two calls wait for each other.
absl::StatusOr<std::vector<KeyedLocks::Hold>> SnapshotCatalog::LockAll(std::vector<std::string> ids, const Call& call) {
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  std::vector<KeyedLocks::Hold> holds;
  holds.reserve(ids.size());
  for (const std::string& id : ids) {
    const std::string_view what = IsVolumeId(id) ? "volume" : IsSnapshotId(id) ? "snapshot" : "group";
    MOORING_ASSIGN_OR_RETURN(KeyedLocks::Hold hold, locks_.Acquire(id, what, call.wait_until));
    holds.push_back(std::move(hold));
  }
  return holds;
}

absl::StatusOr<SnapshotRecord> SnapshotCatalog::FindReady(const std::string& id) {
  if (!IsSnapshotId(id)) return NoSuchSnapshot(id);
  MOORING_ASSIGN_OR_RETURN(std::optional<SnapshotRecord> record, store_.FindById(id));
  if (!record || record->state == SnapshotState::kCreating) return NoSuchSnapshot(id);
  if (record->state == SnapshotState::kDeleting) {
    return NotFound(fmt::format("snapshot {} is being deleted", Quote(id)));
  }
  return *std::move(record);
}

absl::StatusOr<SnapshotInfo> SnapshotCatalog::Get(const std::string& id) {
  MOORING_ASSIGN_OR_RETURN(const SnapshotRecord record, FindReady(id));
  return ToInfo(record);
}

absl::StatusOr<SnapshotCatalog::Image> SnapshotCatalog::Locate(const std::string& id) {
  MOORING_ASSIGN_OR_RETURN(const SnapshotRecord record, FindReady(id));
  MOORING_ASSIGN_OR_RETURN(const Pool* const pool, PoolOf(record));
  const absl::StatusOr<VolumeLocation> location = pool->backend->Locate(id);
  if (location.ok()) return Image{.snapshot = ToInfo(record), .path = location->path};
  return Internal(fmt::format("snapshot {} is in the catalog, but {}: put it back, or delete the snapshot", Quote(id),
                              Message(location.status())));
}

absl::StatusOr<SnapshotPage> SnapshotCatalog::List(const ListSnapshotsSpec& spec) {
  const std::size_t most = spec.max_entries == 0 ? std::numeric_limits<std::size_t>::max() : spec.max_entries;
  SnapshotFilter filter = {
      .after = spec.after, .most = 0, .id = spec.snapshot_id, .source_volume_id = spec.source_volume_id};
  SnapshotPage page;
  while (true) {
    const std::size_t wanted = std::min(kSnapshotChunk, most - page.snapshots.size());
    filter.most = wanted + 1;  // one more shows whether there is a next page
    MOORING_ASSIGN_OR_RETURN(std::vector<SnapshotRecord> chunk, store_.ListReady(filter));
    const bool more = chunk.size() > wanted;
    if (more) chunk.pop_back();
    if (!chunk.empty()) filter.after = chunk.back().seq;
    for (const SnapshotRecord& record : chunk) page.snapshots.push_back(ToInfo(record));
    if (more && page.snapshots.size() == most) page.next = filter.after;
    if (!more || page.next) return page;
  }
}

absl::StatusOr<GroupInfo> SnapshotCatalog::GetGroup(const GroupSpec& spec) {
  MOORING_ASSIGN_OR_RETURN(const std::optional<Set> group, Find(spec.id, /*is_group=*/true));
  if (!group || group->state != SnapshotState::kReady) {
    return NotFound(fmt::format("group snapshot {} does not exist", Quote(spec.id)));
  }
  MOORING_RETURN_IF_ERROR(CheckMembers(spec, group->snapshots));
  return ToInfo(*group);
}

absl::Status SnapshotCatalog::DeleteGroup(const GroupSpec& spec, const Call& call) {
  if (!IsGroupId(spec.id)) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(const auto hold, LockAll({spec.id}, call));
  MOORING_ASSIGN_OR_RETURN(const std::optional<Set> group, Find(spec.id, /*is_group=*/true));
  if (!group || group->state == SnapshotState::kCreating) return absl::OkStatus();  // no call has returned its id
  MOORING_RETURN_IF_ERROR(CheckMembers(spec, group->snapshots));
  std::vector<std::string> members;
  for (const SnapshotRecord& snapshot : group->snapshots) members.push_back(snapshot.id);
  MOORING_ASSIGN_OR_RETURN(const auto in_use, LockAll(members, call));  // a copy of a member may be under way
  return DeleteSet(*group);
}

absl::Status SnapshotCatalog::Delete(const std::string& id, const Call& call) {
  if (!IsSnapshotId(id)) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(const auto hold, LockAll({id}, call));
  MOORING_ASSIGN_OR_RETURN(const std::optional<SnapshotRecord> snapshot, store_.FindById(id));
  if (!snapshot || snapshot->state == SnapshotState::kCreating) return absl::OkStatus();  // no call has returned its id
  if (!snapshot->group_id.empty()) {
    return InvalidArgument(
        fmt::format("snapshot {} is a member of group snapshot {}: delete that", Quote(id), Quote(snapshot->group_id)));
  }
  return DeleteSet(Alone(*snapshot));
}

}  // namespace mooring
