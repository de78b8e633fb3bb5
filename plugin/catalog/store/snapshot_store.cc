#include "plugin/catalog/store/snapshot_store.h"

#include <SQLiteCpp/SQLiteCpp.h>

#include <string_view>

#include "base/status.h"
#include "plugin/catalog/store/catalog_files.h"

namespace mooring {
namespace {

// The columns of both tables are in the order of the table.
SnapshotRecord SnapshotIn(Use& row) {
  const auto bytes = static_cast<std::uint64_t>(row.Number(7));
  const auto restore_bytes = static_cast<std::uint64_t>(row.Number(8));
  return {.seq = row.Number(0),
          .id = WordIn(row, 1),
          .name = WordIn(row, 2),
          .group_id = WordIn(row, 3),
          .source_volume_id = WordIn(row, 4),
          .pool = WordIn(row, 5),
          .state = ParseState(row.Text(6)),
          .bytes = bytes,
          .fs_type = WordIn(row, 9),
          .created_at = row.Number(10),
          .block_only = row.Number(11) != 0,
          .restore_bytes = restore_bytes == 0 ? bytes : restore_bytes};
}

GroupRecord GroupIn(Use& row) {
  return {.id = WordIn(row, 1), .name = WordIn(row, 2), .state = ParseState(row.Text(3)), .created_at = row.Number(4)};
}

std::vector<SnapshotRecord> SnapshotsIn(Use&& row) {
  std::vector<SnapshotRecord> snapshots;
  while (row.Step()) snapshots.push_back(SnapshotIn(row));
  return snapshots;
}

constexpr std::string_view kLookUp = "look up snapshots in";

template <typename Record>
std::optional<Record> OneIn(Use&& row, Record (*read)(Use&)) {
  return row.Step() ? std::optional<Record>(read(row)) : std::nullopt;
}

bool InsertSnapshot(Statements& statements, const SnapshotRecord& record) {
  return statements("INSERT INTO snapshots VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
                    record.id, record.name, record.group_id, record.source_volume_id, record.pool,
                    std::string(StateText(record.state)), static_cast<std::int64_t>(record.bytes),
                    static_cast<std::int64_t>(record.restore_bytes), record.fs_type, record.created_at,
                    record.block_only ? 1 : 0)
             .Exec() == 1;
}

}  // namespace

// Joins what `read` reads from each file. A pool whose server may be away has no snapshots.
template <typename Read>
auto SnapshotStore::ReadAll(Read read) {
  return files_->Join([&](CatalogDatabase& file) { return file.Read(kLookUp, read); }, IfAway::kSkip);
}

absl::StatusOr<bool> SnapshotStore::Insert(const SnapshotRecord& snapshot) {
  return files_->Write(snapshot.id, "add a snapshot to",
                       [&](Statements& statements) { return InsertSnapshot(statements, snapshot); });
}

absl::StatusOr<bool> SnapshotStore::InsertGroup(const GroupRecord& group, const std::vector<SnapshotRecord>& members) {
  return files_->Write(group.id, "add a group of snapshots to", [&](Statements& statements) {
    SQLite::Transaction all(statements.database(), SQLite::TransactionBehavior::IMMEDIATE);
    constexpr std::string_view kInsert = "INSERT INTO snapshot_groups VALUES (NULL, ?, ?, ?, ?) ON CONFLICT DO NOTHING";
    const std::string state(StateText(group.state));
    if (statements(kInsert, group.id, group.name, state, group.created_at).Exec() != 1) return false;
    for (const SnapshotRecord& member : members) {
      if (!InsertSnapshot(statements, member)) return false;
    }
    all.commit();
    return true;
  });
}

absl::StatusOr<bool> SnapshotStore::Move(const std::string& id, SnapshotState from, SnapshotState to) {
  return files_->Write(id, "change a snapshot in", [&](Statements& statements) {
    SQLite::Transaction all(statements.database(), SQLite::TransactionBehavior::IMMEDIATE);
    constexpr std::string_view kMoveGroup = "UPDATE snapshot_groups SET state = ?3 WHERE id = ?1 AND state = ?2";
    constexpr std::string_view kMoveMembers = "UPDATE snapshots SET state = ?2 WHERE group_id = ?1";
    constexpr std::string_view kMove = "UPDATE snapshots SET state = ?3 WHERE id = ?1 AND state = ?2 AND group_id = ''";
    const std::string before(StateText(from)), after(StateText(to));
    const bool group = statements(kMoveGroup, id, before, after).Exec() == 1;
    if (group) statements(kMoveMembers, id, after).Exec();
    const bool moved = group || statements(kMove, id, before, after).Exec() == 1;
    all.commit();
    return moved;
  });
}

absl::Status SnapshotStore::Delete(const std::string& id) {
  return files_->Write(id, "remove a snapshot from", [&](Statements& statements) {
    SQLite::Transaction all(statements.database(), SQLite::TransactionBehavior::IMMEDIATE);
    statements("DELETE FROM snapshots WHERE id = ?1 OR group_id = ?1", id).Exec();
    statements("DELETE FROM snapshot_groups WHERE id = ?", id).Exec();
    all.commit();
  });
}

absl::StatusOr<std::optional<SnapshotRecord>> SnapshotStore::FindById(const std::string& id) {
  return files_->Read(id, kLookUp, [&](Statements& statements) {
    return OneIn(statements("SELECT * FROM snapshots WHERE id = ?", id), SnapshotIn);
  });
}

absl::StatusOr<std::optional<SnapshotRecord>> SnapshotStore::FindByName(const std::string& name, std::string_view tag) {
  MOORING_ASSIGN_OR_RETURN(CatalogDatabase* const file, files_->OfTag(tag));
  return file->Read(kLookUp, [&](Statements& statements) {
    return OneIn(statements("SELECT * FROM snapshots WHERE name = ? AND group_id = ''", name), SnapshotIn);
  });
}

absl::StatusOr<std::optional<GroupRecord>> SnapshotStore::FindGroupById(const std::string& id) {
  return files_->Read(id, kLookUp, [&](Statements& statements) {
    return OneIn(statements("SELECT * FROM snapshot_groups WHERE id = ?", id), GroupIn);
  });
}

absl::StatusOr<std::optional<GroupRecord>> SnapshotStore::FindGroupByName(const std::string& name,
                                                                          std::string_view tag) {
  MOORING_ASSIGN_OR_RETURN(CatalogDatabase* const file, files_->OfTag(tag));
  return file->Read(kLookUp, [&](Statements& statements) {
    return OneIn(statements("SELECT * FROM snapshot_groups WHERE name = ?", name), GroupIn);
  });
}

absl::StatusOr<std::vector<SnapshotRecord>> SnapshotStore::Members(const std::string& group_id) {
  constexpr std::string_view kMembers = "SELECT * FROM snapshots WHERE group_id = ?1 AND group_id <> '' ORDER BY seq";
  return files_->Read(group_id, kLookUp,
                      [&](Statements& statements) { return SnapshotsIn(statements(kMembers, group_id)); });
}

absl::StatusOr<std::vector<SnapshotRecord>> SnapshotStore::ListReady(const SnapshotFilter& filter) {
  if (!filter.id.empty()) {
    MOORING_ASSIGN_OR_RETURN(const std::optional<SnapshotRecord> one, FindById(filter.id));
    const bool wanted = one && one->state == SnapshotState::kReady && one->seq > filter.after && filter.most > 0 &&
                        (filter.source_volume_id.empty() || one->source_volume_id == filter.source_volume_id);
    return wanted ? std::vector<SnapshotRecord>{*one} : std::vector<SnapshotRecord>();
  }
  constexpr std::string_view kList = "SELECT * FROM snapshots WHERE state = 'ready' AND seq > ?1 ORDER BY seq LIMIT ?2";
  constexpr std::string_view kListOfSource =
      "SELECT * FROM snapshots WHERE state = 'ready' AND seq > ?1 AND source_volume_id = ?3 ORDER BY seq LIMIT ?2";
  const auto list = [&](CatalogDatabase& file, std::int64_t after, std::size_t at_most) {
    const auto most = static_cast<std::int64_t>(at_most);
    return file.Read(kLookUp, [&](Statements& statements) {
      return filter.source_volume_id.empty()
                 ? SnapshotsIn(statements(kList, after, most))
                 : SnapshotsIn(statements(kListOfSource, after, most, filter.source_volume_id));
    });
  };
  // A pool whose server may be away has no snapshots.
  return files_->Page(
      filter.after, filter.most, list, [](SnapshotRecord& record) -> std::int64_t& { return record.seq; },
      IfAway::kSkip);
}

absl::StatusOr<std::vector<SnapshotRecord>> SnapshotStore::ListUnfinished() {
  return ReadAll([](Statements& statements) {
    return SnapshotsIn(statements("SELECT * FROM snapshots WHERE state <> 'ready' AND group_id = '' ORDER BY seq"));
  });
}

absl::StatusOr<std::vector<GroupRecord>> SnapshotStore::ListUnfinishedGroups() {
  return ReadAll([](Statements& statements) {
    std::vector<GroupRecord> groups;
    Use row = statements("SELECT * FROM snapshot_groups WHERE state <> 'ready' ORDER BY seq");
    while (row.Step()) groups.push_back(GroupIn(row));
    return groups;
  });
}

absl::StatusOr<std::uint64_t> SnapshotStore::BytesIn(const std::string& pool) {
  MOORING_ASSIGN_OR_RETURN(CatalogDatabase* const file, files_->OfPool(pool));
  return file->Read(kLookUp, [&](Statements& statements) {
    Use row = statements("SELECT COALESCE(SUM(bytes), 0) FROM snapshots WHERE pool = ?", pool);
    return row.Step() ? static_cast<std::uint64_t>(row.Number(0)) : 0;
  });
}

absl::StatusOr<std::vector<PoolCount>> SnapshotStore::CountByPool() {
  return files_->Join(
      [](CatalogDatabase& file) {
        return file.Count("count the snapshots of",
                          "SELECT pool, state, COUNT(*), SUM(bytes) FROM snapshots GROUP BY 1, 2");
      },
      IfAway::kSkip);
}

absl::StatusOr<std::vector<UnfinishedRecord>> SnapshotStore::NameUnfinished() {
  return files_->Join(
      [](CatalogDatabase& file) {
        return file.NameUnfinished("list the unfinished snapshots of",
                                   "SELECT id, pool FROM snapshots WHERE state <> 'ready'");
      },
      IfAway::kSkip);
}

absl::StatusOr<std::vector<std::string>> SnapshotStore::AllIds() {
  return ReadAll([](Statements& statements) {
    std::vector<std::string> ids;
    for (Use row = statements("SELECT id FROM snapshots"); row.Step();) ids.push_back(row.Text(0));
    return ids;
  });
}

}  // namespace mooring
