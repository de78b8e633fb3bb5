#include "plugin/catalog/store/snapshot_store.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <fmt/format.h>

#include <mutex>
#include <utility>

#include "base/status.h"
#include "plugin/catalog/store/catalog_database.h"

namespace mooring {
namespace {

constexpr char kColumns[] =
    "seq, id, name, group_id, source_volume_id, pool, state, bytes, restore_bytes, fs_type, created_at, block_only";
constexpr char kGroupColumns[] = "id, name, state, created_at";

SnapshotRecord SnapshotIn(Use& row) {
  const auto bytes = static_cast<std::uint64_t>(row.Number(7));
  const auto restore_bytes = static_cast<std::uint64_t>(row.Number(8));
  return {.seq = row.Number(0),
          .id = row.Text(1),
          .name = row.Text(2),
          .group_id = row.Text(3),
          .source_volume_id = row.Text(4),
          .pool = row.Text(5),
          .state = ParseState(row.Text(6)),
          .bytes = bytes,
          .fs_type = row.Text(9),
          .created_at = row.Number(10),
          .block_only = row.Number(11) != 0,
          .restore_bytes = restore_bytes == 0 ? bytes : restore_bytes};
}

GroupRecord GroupIn(Use& row) {
  return {.id = row.Text(0), .name = row.Text(1), .state = ParseState(row.Text(2)), .created_at = row.Number(3)};
}

std::vector<SnapshotRecord> SnapshotsIn(Use&& row) {
  std::vector<SnapshotRecord> snapshots;
  while (row.Step()) snapshots.push_back(SnapshotIn(row));
  return snapshots;
}

template <typename Record>
std::optional<Record> OneIn(Use&& row, Record (*read)(Use&)) {
  return row.Step() ? std::optional<Record>(read(row)) : std::nullopt;
}

}  // namespace

struct SnapshotStore::Writer {
  explicit Writer(SQLite::Database& connection)
      : database(connection),
        insert(database,
               "INSERT INTO snapshots (id, name, group_id, source_volume_id, pool, state, bytes, restore_bytes, "
               "fs_type, created_at, block_only) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"),
        insert_group(database,
                     "INSERT INTO snapshot_groups (id, name, state, created_at) VALUES (?, ?, ?, ?) "
                     "ON CONFLICT DO NOTHING"),
        move(database, "UPDATE snapshots SET state = ?3 WHERE id = ?1 AND state = ?2 AND group_id = ''"),
        move_group(database, "UPDATE snapshot_groups SET state = ?3 WHERE id = ?1 AND state = ?2"),
        move_members(database, "UPDATE snapshots SET state = ?2 WHERE group_id = ?1"),
        remove(database, "DELETE FROM snapshots WHERE id = ?1 OR group_id = ?1"),
        remove_group(database, "DELETE FROM snapshot_groups WHERE id = ?") {}

  bool Insert(const SnapshotRecord& record) {
    return Use(insert, record.id, record.name, record.group_id, record.source_volume_id, record.pool,
               std::string(StateText(record.state)), static_cast<std::int64_t>(record.bytes),
               static_cast<std::int64_t>(record.restore_bytes), record.fs_type, record.created_at,
               record.block_only ? 1 : 0)
               .Exec() == 1;
  }

  SQLite::Database& database;
  SQLite::Statement insert, insert_group, move, move_group, move_members, remove, remove_group;
};

struct SnapshotStore::Reader {
  explicit Reader(SQLite::Database& database)
      : by_id(database, fmt::format("SELECT {} FROM snapshots WHERE id = ?", kColumns)),
        by_name(database, fmt::format("SELECT {} FROM snapshots WHERE name = ? AND group_id = ''", kColumns)),
        group_by_id(database, fmt::format("SELECT {} FROM snapshot_groups WHERE id = ?", kGroupColumns)),
        group_by_name(database, fmt::format("SELECT {} FROM snapshot_groups WHERE name = ?", kGroupColumns)),
        members(database,
                fmt::format("SELECT {} FROM snapshots WHERE group_id = ?1 AND group_id <> '' ORDER BY seq", kColumns)),
        list(database, fmt::format("SELECT {} FROM snapshots WHERE state = 'ready' AND seq > ?1 ORDER BY seq LIMIT ?2",
                                   kColumns)),
        list_of_source(database, fmt::format("SELECT {} FROM snapshots WHERE state = 'ready' AND seq > ?1 "
                                             "AND source_volume_id = ?3 ORDER BY seq LIMIT ?2",
                                             kColumns)),
        unfinished(
            database,
            fmt::format("SELECT {} FROM snapshots WHERE state <> 'ready' AND group_id = '' ORDER BY seq", kColumns)),
        unfinished_groups(
            database, fmt::format("SELECT {} FROM snapshot_groups WHERE state <> 'ready' ORDER BY seq", kGroupColumns)),
        ids(database, "SELECT id FROM snapshots"),
        bytes_in(database, "SELECT COALESCE(SUM(bytes), 0) FROM snapshots WHERE pool = ?") {}

  SQLite::Statement by_id, by_name, group_by_id, group_by_name, members, list, list_of_source, unfinished,
      unfinished_groups, ids, bytes_in;
};

SnapshotStore::SnapshotStore(std::shared_ptr<CatalogDatabase> database) : database_(std::move(database)) {}
SnapshotStore::~SnapshotStore() = default;

template <typename Action>
auto SnapshotStore::Write(std::string_view what, Action action) {
  const std::lock_guard<std::mutex> lock(database_->writer().mutex);
  return Guarded(what, database_->file(), [&] { return action(*writer_); });
}

template <typename Action>
auto SnapshotStore::Read(Action action) {
  const std::lock_guard<std::mutex> lock(database_->reader().mutex);
  return Guarded("look up snapshots in", database_->file(), [&] { return action(*reader_); });
}

absl::StatusOr<std::unique_ptr<SnapshotStore>> SnapshotStore::Open(std::shared_ptr<CatalogDatabase> database) {
  std::unique_ptr<SnapshotStore> store(new SnapshotStore(std::move(database)));
  MOORING_RETURN_IF_ERROR(Guarded("open", store->database_->file(), [&] {
    store->writer_ = std::make_unique<Writer>(store->database_->writer().database);
    store->reader_ = std::make_unique<Reader>(store->database_->reader().database);
  }));
  return store;
}

absl::StatusOr<bool> SnapshotStore::Insert(const SnapshotRecord& snapshot) {
  return Write("add a snapshot to", [&](Writer& writer) { return writer.Insert(snapshot); });
}

absl::StatusOr<bool> SnapshotStore::InsertGroup(const GroupRecord& group, const std::vector<SnapshotRecord>& members) {
  return Write("add a group of snapshots to", [&](Writer& writer) {
    SQLite::Transaction all(writer.database, SQLite::TransactionBehavior::IMMEDIATE);
    const std::string state(StateText(group.state));
    if (Use(writer.insert_group, group.id, group.name, state, group.created_at).Exec() != 1) return false;
    for (const SnapshotRecord& member : members) {
      if (!writer.Insert(member)) return false;
    }
    all.commit();
    return true;
  });
}

absl::StatusOr<bool> SnapshotStore::Move(const std::string& id, SnapshotState from, SnapshotState to) {
  return Write("change a snapshot in", [&](Writer& writer) {
    SQLite::Transaction all(writer.database, SQLite::TransactionBehavior::IMMEDIATE);
    const std::string before(StateText(from)), after(StateText(to));
    const bool group = Use(writer.move_group, id, before, after).Exec() == 1;
    if (group) Use(writer.move_members, id, after).Exec();
    const bool moved = group || Use(writer.move, id, before, after).Exec() == 1;
    all.commit();
    return moved;
  });
}

absl::Status SnapshotStore::Delete(const std::string& id) {
  return Write("remove a snapshot from", [&](Writer& writer) {
    SQLite::Transaction all(writer.database, SQLite::TransactionBehavior::IMMEDIATE);
    Use(writer.remove, id).Exec();
    Use(writer.remove_group, id).Exec();
    all.commit();
  });
}

absl::StatusOr<std::optional<SnapshotRecord>> SnapshotStore::FindById(const std::string& id) {
  return Read([&](Reader& reader) { return OneIn(Use(reader.by_id, id), SnapshotIn); });
}

absl::StatusOr<std::optional<SnapshotRecord>> SnapshotStore::FindByName(const std::string& name) {
  return Read([&](Reader& reader) { return OneIn(Use(reader.by_name, name), SnapshotIn); });
}

absl::StatusOr<std::optional<GroupRecord>> SnapshotStore::FindGroupById(const std::string& id) {
  return Read([&](Reader& reader) { return OneIn(Use(reader.group_by_id, id), GroupIn); });
}

absl::StatusOr<std::optional<GroupRecord>> SnapshotStore::FindGroupByName(const std::string& name) {
  return Read([&](Reader& reader) { return OneIn(Use(reader.group_by_name, name), GroupIn); });
}

absl::StatusOr<std::vector<SnapshotRecord>> SnapshotStore::Members(const std::string& group_id) {
  return Read([&](Reader& reader) { return SnapshotsIn(Use(reader.members, group_id)); });
}

absl::StatusOr<std::vector<SnapshotRecord>> SnapshotStore::ListReady(const SnapshotFilter& filter) {
  if (!filter.id.empty()) {
    MOORING_ASSIGN_OR_RETURN(const std::optional<SnapshotRecord> one, FindById(filter.id));
    const bool wanted = one && one->state == SnapshotState::kReady && one->seq > filter.after && filter.most > 0 &&
                        (filter.source_volume_id.empty() || one->source_volume_id == filter.source_volume_id);
    return wanted ? std::vector<SnapshotRecord>{*one} : std::vector<SnapshotRecord>();
  }
  return Read([&](Reader& reader) {
    const auto most = static_cast<std::int64_t>(filter.most);
    if (filter.source_volume_id.empty()) {
      return SnapshotsIn(Use(reader.list, filter.after, most));
    }
    return SnapshotsIn(Use(reader.list_of_source, filter.after, most, filter.source_volume_id));
  });
}

absl::StatusOr<std::vector<SnapshotRecord>> SnapshotStore::ListUnfinished() {
  return Read([](Reader& reader) { return SnapshotsIn(Use(reader.unfinished)); });
}

absl::StatusOr<std::vector<GroupRecord>> SnapshotStore::ListUnfinishedGroups() {
  return Read([](Reader& reader) {
    std::vector<GroupRecord> groups;
    for (Use row(reader.unfinished_groups); row.Step();) groups.push_back(GroupIn(row));
    return groups;
  });
}

absl::StatusOr<std::uint64_t> SnapshotStore::BytesIn(const std::string& pool) {
  return Read([&pool](Reader& reader) {
    Use row(reader.bytes_in, pool);
    return row.Step() ? static_cast<std::uint64_t>(row.Number(0)) : 0;
  });
}

absl::StatusOr<std::vector<PoolCount>> SnapshotStore::CountByPool() {
  return Guarded("count the snapshots of", database_->file(), [this] {
    return CountsIn(database_->counter(), "SELECT pool, state, COUNT(*), SUM(bytes) FROM snapshots GROUP BY 1, 2");
  });
}

absl::StatusOr<std::vector<UnfinishedRecord>> SnapshotStore::NameUnfinished() {
  return Guarded("list the unfinished snapshots of", database_->file(), [this] {
    return UnfinishedIn(database_->counter(), "SELECT id, pool FROM snapshots WHERE state <> 'ready'");
  });
}

absl::StatusOr<std::vector<std::string>> SnapshotStore::AllIds() {
  return Read([](Reader& reader) {
    std::vector<std::string> ids;
    for (Use row(reader.ids); row.Step();) ids.push_back(row.Text(0));
    return ids;
  });
}

}  // namespace mooring
