// Creates snapshots.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/deadline.h"
#include "base/log.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "plugin/catalog/snapshot_catalog.h"
#include "plugin/model/repeat.h"
#include "plugin/model/volume_id.h"

namespace mooring {
namespace {

// The attempts of a call whose name belongs to a snapshot that is being deleted.
constexpr int kAttempts = 5;

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

absl::Status CheckSources(const std::string& name, bool is_group, const std::vector<SnapshotRecord>& there,
                          const std::vector<std::string>& wanted) {
  if (Sorted(SourcesOf(there)) == Sorted(wanted)) return absl::OkStatus();
  if (is_group) {
    return AlreadyExists(
        fmt::format("a group snapshot named {} exists, of other volumes: delete it, or use another name", Quote(name)));
  }
  return AlreadyExists(fmt::format("a snapshot named {} exists, of volume {}: delete it, or use another name",
                                   Quote(name), there.front().source_volume_id));
}

SnapshotRecord Draft(const VolumeInfo& volume, std::uint64_t bytes) {
  SnapshotRecord record;
  record.id = NewSnapshotId();
  record.source_volume_id = volume.id;
  record.bytes = bytes;
  record.restore_bytes = std::min(bytes, volume.asked_bytes);
  record.fs_type = volume.fs_type;
  record.block_only = volume.block_only;
  return record;
}

}  // namespace

absl::StatusOr<SnapshotInfo> SnapshotCatalog::Create(const CreateSnapshotSpec& spec, const Call& call) {
  MOORING_ASSIGN_OR_RETURN(const Set set, FindOrMake(spec.name, /*is_group=*/false, {spec.source_volume_id}, call));
  return ToInfo(set.snapshots.front());
}

absl::StatusOr<GroupInfo> SnapshotCatalog::CreateGroup(const CreateGroupSpec& spec, const Call& call) {
  MOORING_ASSIGN_OR_RETURN(const Set set, FindOrMake(spec.name, /*is_group=*/true, spec.source_volume_ids, call));
  return ToInfo(set);
}

absl::StatusOr<SnapshotCatalog::Set> SnapshotCatalog::FindOrMake(const std::string& name, bool is_group,
                                                                 const std::vector<std::string>& volume_ids,
                                                                 const Call& call) {
  MOORING_ASSIGN_OR_RETURN(const KeyedLocks::Hold hold, LockName(name, is_group, call));
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    MOORING_ASSIGN_OR_RETURN(std::optional<Set> there, FindNamed(name, is_group));
    if (!there) return Make(name, is_group, volume_ids, call);
    if (there->state == SnapshotState::kReady) {
      MOORING_RETURN_IF_ERROR(CheckSources(name, is_group, there->snapshots, volume_ids));
      return *std::move(there);
    }
    MOORING_RETURN_IF_ERROR(ClearName(*there, call));
  }
  return Aborted(fmt::format("another process is deleting the snapshot {}: call again later", Quote(name)));
}

// The volumes are locked during the copy, so no call deletes, expands, stages or copies them.
absl::StatusOr<SnapshotCatalog::Set> SnapshotCatalog::Make(const std::string& name, bool is_group,
                                                           const std::vector<std::string>& volume_ids,
                                                           const Call& call) {
  // This comes before the locks, which are only for existing volumes.
  for (const std::string& id : volume_ids) MOORING_RETURN_IF_ERROR(volumes_.Get(id).status());
  MOORING_ASSIGN_OR_RETURN(const auto holds, LockAll(volume_ids, call));
  Set set = {.id = is_group ? NewGroupId() : "", .name = name, .is_group = is_group, .snapshots = {}};
  std::vector<Source> sources;
  for (const std::string& id : volume_ids) {
    MOORING_ASSIGN_OR_RETURN(Source source, FindSource(id));
    set.snapshots.push_back(Draft(source.volume, source.bytes));
    sources.push_back(std::move(source));
  }
  if (!is_group) set.id = set.snapshots.front().id;
  const std::int64_t created_at = Now();  // data that was synced before is in the snapshot
  for (SnapshotRecord& snapshot : set.snapshots) {
    snapshot.name = name;
    snapshot.group_id = is_group ? set.id : "";
    snapshot.pool = sources.front().volume.pool;
    snapshot.created_at = created_at;
  }
  MOORING_RETURN_IF_ERROR(InsertWithRoom(set, call));
  const absl::Status made = Populate(set, sources);
  if (made.ok()) return set;
  // A failed rollback (a full disk, no mount helper) does no harm: the same call or the next start repeats it.
  const DeadlineScope fresh = DeadlineScope::Fresh(kRollback);
  if (const absl::Status back = DeleteImagesAndRecords(set, MayHaveLeftFrozen(made)); !back.ok()) {
    log::Warning("a snapshot that could not be created is not cleaned up yet",
                 {{"snapshot", set.id}, {"cause", Message(back)}});
  }
  return made;
}

absl::StatusOr<SnapshotCatalog::Source> SnapshotCatalog::FindSource(const std::string& volume_id) {
  MOORING_ASSIGN_OR_RETURN(VolumeInfo volume, volumes_.Get(volume_id));
  MOORING_ASSIGN_OR_RETURN(const NodeVolume found, volumes_.Find(volume_id));
  if (!TraitsOf(found.kind).snapshots) {
    return FailedPrecondition(
        fmt::format("volume {} lies in pool {}, whose backend has no snapshots: only volumes that are images have",
                    volume_id, Quote(volume.pool)));
  }
  MOORING_RETURN_IF_ERROR(CheckWhole(found));
  return Source{.volume = std::move(volume), .path = found.path, .bytes = found.bytes};
}

absl::Status SnapshotCatalog::InsertWithRoom(const Set& set, const Call& call) {
  MOORING_ASSIGN_OR_RETURN(const Pool* const pool, PoolOf(set.snapshots.front()));
  std::uint64_t bytes = 0;
  for (const SnapshotRecord& snapshot : set.snapshots) bytes += snapshot.bytes;
  MOORING_ASSIGN_OR_RETURN(const auto room, volumes_.HoldRoom(*pool, bytes, call));
  const GroupRecord group = {
      .id = set.id, .name = set.name, .state = set.state, .created_at = set.snapshots.front().created_at};
  MOORING_ASSIGN_OR_RETURN(const bool inserted, set.is_group ? store_.InsertGroup(group, set.snapshots)
                                                             : store_.Insert(set.snapshots.front()));
  if (inserted) return absl::OkStatus();
  return Aborted(fmt::format("another process is making the snapshot {}: call again later", Quote(set.name)));
}

// Moves the set from creating to ready.
absl::Status SnapshotCatalog::Populate(const Set& set, const std::vector<Source>& sources) {
  MOORING_ASSIGN_OR_RETURN(const Pool* const pool, PoolOf(set.snapshots.front()));
  std::vector<CopyDraft> drafts;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const SnapshotRecord& snapshot = set.snapshots[i];
    drafts.push_back({.id = snapshot.id, .source = sources[i].path, .bytes = snapshot.bytes});
  }
  MOORING_RETURN_IF_ERROR(Unexpected(pool->backend->Copy(drafts)));
  MOORING_ASSIGN_OR_RETURN(const bool ready, store_.Move(set.id, SnapshotState::kCreating, SnapshotState::kReady));
  if (ready) return absl::OkStatus();
  return Aborted(fmt::format("another process gave the snapshot {} up: call again", Quote(set.name)));
}

// An unfinished set holds the name. Its sources may be frozen, and are locked, so that no other copy is thawed.
absl::Status SnapshotCatalog::ClearName(const Set& unfinished, const Call& call) {
  std::vector<std::string> ids = SourcesOf(unfinished.snapshots);
  ids.push_back(unfinished.id);
  MOORING_ASSIGN_OR_RETURN(const auto holds, LockAll(std::move(ids), call));
  MOORING_ASSIGN_OR_RETURN(const std::optional<Set> now, Find(unfinished.id, unfinished.is_group));
  if (!now || now->state == SnapshotState::kReady) return absl::OkStatus();
  return RepeatWhileAborted(call, [&] { return Settle(*now); });
}

}  // namespace mooring
