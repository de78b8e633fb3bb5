#include "plugin/catalog/snapshot_catalog.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "base/deadline.h"
#include "base/log.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "plugin/catalog/catalog_locks.h"
#include "plugin/catalog/page.h"
#include "plugin/catalog/volume_lookup.h"
#include "plugin/model/volume_id.h"

namespace mooring {
namespace {

// The attempts of a call whose name belongs to a snapshot that is being deleted.
constexpr int kSnapshotAttempts = 5;

std::int64_t Now() {
  const auto since_epoch = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(since_epoch).count();
}

std::vector<std::string> Sorted(std::vector<std::string> ids) {
  std::sort(ids.begin(), ids.end());
  return ids;
}

std::vector<std::string> SourcesOf(const std::vector<SnapshotRecord>& snapshots) {
  std::vector<std::string> ids;
  for (const SnapshotRecord& snapshot : snapshots) ids.push_back(snapshot.source_volume_id);
  return ids;
}

// Snapshots lie in the pool of the first volume.
std::string_view TagFor(const std::vector<std::string>& volume_ids) { return TagOfId(volume_ids.front()); }

absl::Status CheckSources(const std::string& name, bool is_group, const std::vector<SnapshotRecord>& there,
                          const std::vector<std::string>& wanted) {
  if (Sorted(SourcesOf(there)) == Sorted(wanted)) return absl::OkStatus();
  if (is_group) {
    return AlreadyExists(
        "a group snapshot named {} exists, of other volumes ({}, not {}): delete it, or use another name", Quote(name),
        fmt::join(Sorted(SourcesOf(there)), ", "), fmt::join(Sorted(wanted), ", "));
  }
  return AlreadyExists("a snapshot named {} exists, of volume {}, not {}: delete it, or use another name", Quote(name),
                       there.front().source_volume_id, Quote(wanted.front()));
}

SnapshotRecord Draft(const std::string& volume_id, const CopySource& source, std::string_view tag) {
  SnapshotRecord record;
  record.id = NewSnapshotId(tag);
  record.source_volume_id = volume_id;
  record.bytes = source.bytes;
  record.restore_bytes = std::min(source.bytes, source.asked_bytes);
  record.fs_type = source.fs_type;
  record.block_only = source.block_only;
  return record;
}

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

absl::StatusOr<SnapshotSet> SnapshotMaker::FindOrMake(const std::string& name, bool is_group,
                                                      const std::vector<std::string>& volume_ids, const Call& call) {
  const std::string_view tag = TagFor(volume_ids);
  MOORING_ASSIGN_OR_RETURN(const KeyedLocks::Hold hold,
                           LockName(locks_, is_group ? kGroupName : kSnapshotName, name, call, tag));
  for (int attempt = 0; attempt < kSnapshotAttempts; ++attempt) {
    MOORING_ASSIGN_OR_RETURN(std::optional<SnapshotSet> there, sets_.FindNamed(name, is_group, tag));
    if (!there) return Make(name, is_group, volume_ids, call);
    if (there->state == SnapshotState::kReady) {
      MOORING_RETURN_IF_ERROR(CheckSources(name, is_group, there->snapshots, volume_ids));
      return *std::move(there);
    }
    MOORING_RETURN_IF_ERROR(ClearName(*there, call));
  }
  return Aborted("another process is deleting the snapshot {}: call again later", Quote(name));
}

// The volumes are locked during the copy, so no call deletes, expands, stages or copies them.
absl::StatusOr<SnapshotSet> SnapshotMaker::Make(const std::string& name, bool is_group,
                                                const std::vector<std::string>& volume_ids, const Call& call) {
  // This comes before the locks, which are only for existing volumes.
  for (const std::string& id : volume_ids) MOORING_RETURN_IF_ERROR(volumes_.Find(id).status());
  MOORING_ASSIGN_OR_RETURN(const auto holds, LockIds(locks_, volume_ids, call));
  SnapshotSet set = {
      .id = is_group ? NewGroupId(TagFor(volume_ids)) : "", .name = name, .is_group = is_group, .snapshots = {}};
  std::vector<CopySource> sources;
  for (const std::string& id : volume_ids) {
    MOORING_ASSIGN_OR_RETURN(CopySource source, FindSource(id));
    if (!sources.empty() && source.kind != sources.front().kind) {
      return FailedPrecondition("volumes {} and {} have different backends: name volumes of one backend in a group",
                                volume_ids.front(), id);
    }
    set.snapshots.push_back(Draft(id, source, TagFor(volume_ids)));
    sources.push_back(std::move(source));
  }
  if (!is_group) set.id = set.snapshots.front().id;
  const std::int64_t created_at = Now();  // data that was synced before is in the snapshot
  for (SnapshotRecord& snapshot : set.snapshots) {
    snapshot.name = name;
    snapshot.group_id = is_group ? set.id : "";
    snapshot.pool = sources.front().pool;
    snapshot.created_at = created_at;
  }
  MOORING_RETURN_IF_ERROR(InsertWithRoom(set, call));
  const absl::Status made = Populate(set, sources);
  if (made.ok()) return set;
  // A failed rollback (a full disk, no mount helper) does no harm: the same call or the next start repeats it.
  const DeadlineScope fresh = DeadlineScope::Fresh(kRollback);
  log::WarningIfFailed(sets_.RollBack(set, MayHaveLeftFrozen(made)),
                       "a snapshot that could not be created is not cleaned up yet", {{"snapshot", set.id}});
  return made;
}

absl::StatusOr<CopySource> SnapshotMaker::FindSource(const std::string& volume_id) {
  MOORING_ASSIGN_OR_RETURN(CopySource source,
                           volumes_.FindSource({.kind = ContentSource::Kind::kVolume, .id = volume_id}));
  MOORING_ASSIGN_OR_RETURN(const Pool* const pool, pools_.Find(source.pool));
  if (pool->traits().snapshots) return source;
  return FailedPrecondition(
      "volume {} lies in pool {}, which has no snapshots: only images, btrfs subvolumes and thin volumes have",
      volume_id, Quote(source.pool));
}

absl::Status SnapshotMaker::InsertWithRoom(const SnapshotSet& set, const Call& call) {
  MOORING_ASSIGN_OR_RETURN(const Pool* const pool, PoolOf(pools_, set.snapshots.front()));
  std::uint64_t bytes = 0;
  for (const SnapshotRecord& snapshot : set.snapshots) bytes += snapshot.bytes;
  MOORING_ASSIGN_OR_RETURN(const auto room, volumes_.room().Lock(*pool, bytes, call));
  const GroupRecord group = {
      .id = set.id, .name = set.name, .state = set.state, .created_at = set.snapshots.front().created_at};
  MOORING_ASSIGN_OR_RETURN(const bool inserted, set.is_group ? store_.InsertGroup(group, set.snapshots)
                                                             : store_.Insert(set.snapshots.front()));
  if (inserted) return absl::OkStatus();
  return Aborted("another process is making the snapshot {}: call again later", Quote(set.name));
}

// Moves the set from creating to ready.
absl::Status SnapshotMaker::Populate(const SnapshotSet& set, const std::vector<CopySource>& sources) {
  MOORING_ASSIGN_OR_RETURN(const Pool* const pool, PoolOf(pools_, set.snapshots.front()));
  std::vector<CopyDraft> drafts;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const SnapshotRecord& snapshot = set.snapshots[i];
    drafts.push_back(
        {.id = snapshot.id, .source = sources[i].path, .bytes = snapshot.bytes, .source_id = sources[i].id});
  }
  MOORING_RETURN_IF_ERROR(Unexpected(pool->backend->Copy(drafts)));
  MOORING_ASSIGN_OR_RETURN(const bool ready, store_.Move(set.id, SnapshotState::kCreating, SnapshotState::kReady));
  if (ready) return absl::OkStatus();
  return Aborted("another process gave the snapshot {} up: call again", Quote(set.name));
}

// An unfinished set holds the name. Its sources may be frozen, and are locked, so that no other copy is thawed.
absl::Status SnapshotMaker::ClearName(const SnapshotSet& unfinished, const Call& call) {
  std::vector<std::string> ids = SourcesOf(unfinished.snapshots);
  ids.push_back(unfinished.id);
  MOORING_ASSIGN_OR_RETURN(const auto holds, LockIds(locks_, std::move(ids), call));
  MOORING_ASSIGN_OR_RETURN(const std::optional<SnapshotSet> now, sets_.Find(unfinished.id, unfinished.is_group));
  if (!now || now->state == SnapshotState::kReady) return absl::OkStatus();
  return RepeatWhileAborted(call, [&] { return sets_.Settle(*now); });
}

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
  if (location.ok()) return Image{.snapshot = record, .kind = pool->kind, .path = StorageOf(*location)};
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
