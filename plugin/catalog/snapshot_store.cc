#include "plugin/catalog/snapshot_store.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <fmt/format.h>

#include <mutex>
#include <utility>

#include "base/log.h"
#include "base/status.h"
#include "plugin/catalog/catalog_database.h"

namespace mooring {
namespace {

// A member's name is its group's, so only the others' are unique.
constexpr char kTables[] = R"(
  CREATE TABLE IF NOT EXISTS snapshots (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    group_id TEXT NOT NULL,
    source_volume_id TEXT NOT NULL,
    pool TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('creating', 'ready', 'deleting')),
    bytes INTEGER NOT NULL,
    fs_type TEXT NOT NULL,
    created_at INTEGER NOT NULL);
  CREATE UNIQUE INDEX IF NOT EXISTS snapshot_names ON snapshots(name) WHERE group_id = '';
  CREATE INDEX IF NOT EXISTS snapshots_by_source ON snapshots(source_volume_id, seq);
  CREATE INDEX IF NOT EXISTS snapshots_by_group ON snapshots(group_id) WHERE group_id <> '';
  CREATE INDEX IF NOT EXISTS unfinished_snapshots ON snapshots(state) WHERE state <> 'ready';
  CREATE TABLE IF NOT EXISTS snapshot_groups (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL UNIQUE,
    state TEXT NOT NULL CHECK (state IN ('creating', 'ready', 'deleting')),
    created_at INTEGER NOT NULL);
)";

// Facts that only some snapshots have are settings of the catalog, as with volumes (catalog_store.cc).
constexpr char kColumns[] =
    "seq, id, name, group_id, source_volume_id, pool, state, bytes, fs_type, created_at, "
    "(SELECT value FROM settings WHERE key = 'block only of ' || id), "
    "(SELECT value FROM settings WHERE key = 'restore size of ' || id)";
constexpr char kGroupColumns[] = "id, name, state, created_at";

SnapshotRecord SnapshotIn(Use& row) {
  return {.seq = row.Number(0),
          .id = row.Text(1),
          .name = row.Text(2),
          .group_id = row.Text(3),
          .source_volume_id = row.Text(4),
          .pool = row.Text(5),
          .state = ParseState(row.Text(6)),
          .bytes = static_cast<std::uint64_t>(row.Number(7)),
          .fs_type = row.Text(8),
          .created_at = row.Number(9),
          .block_only = !row.IsNull(10),
          .restore_bytes = static_cast<std::uint64_t>(row.IsNull(11) ? row.Number(7) : row.Number(11))};
}

GroupRecord GroupIn(Use& row) {
  return {.id = row.Text(0), .name = row.Text(1), .state = ParseState(row.Text(2)), .created_at = row.Number(3)};
}

std::vector<SnapshotRecord> SnapshotsIn(Use& row) {
  std::vector<SnapshotRecord> snapshots;
  while (row.Step()) snapshots.push_back(SnapshotIn(row));
  return snapshots;
}

template <typename Record>
std::optional<Record> OneIn(Use& row, Record (*read)(Use&)) {
  return row.Step() ? std::optional<Record>(read(row)) : std::nullopt;
}

// The last of the tables, which are made together.
bool HasTables(const SQLite::Database& database) { return database.tableExists("snapshot_groups"); }

void MakeTables(SQLite::Database& database) {
  if (HasTables(database)) return;  // a full disk takes not even a statement that does nothing
  SQLite::Transaction all(database, SQLite::TransactionBehavior::IMMEDIATE);
  database.exec(kTables);
  all.commit();
}

}  // namespace

struct SnapshotStore::Writer {
  explicit Writer(SQLite::Database& connection)
      : database(connection),
        insert(database,
               "INSERT INTO snapshots (id, name, group_id, source_volume_id, pool, state, bytes, fs_type, created_at) "
               "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"),
        insert_group(database,
                     "INSERT INTO snapshot_groups (id, name, state, created_at) VALUES (?, ?, ?, ?) "
                     "ON CONFLICT DO NOTHING"),
        move(database, "UPDATE snapshots SET state = ?3 WHERE id = ?1 AND state = ?2 AND group_id = ''"),
        move_group(database, "UPDATE snapshot_groups SET state = ?3 WHERE id = ?1 AND state = ?2"),
        move_members(database, "UPDATE snapshots SET state = ?2 WHERE group_id = ?1"),
        set_block_only(database, "INSERT OR REPLACE INTO settings (key, value) VALUES ('block only of ' || ?, 'true')"),
        set_restore_size(database,
                         "INSERT OR REPLACE INTO settings (key, value) VALUES ('restore size of ' || ?1, ?2)"),
        unset_details(database,
                      "DELETE FROM settings WHERE key IN (SELECT detail || id FROM snapshots, "
                      "(SELECT 'block only of ' AS detail UNION ALL SELECT 'restore size of ') "
                      "WHERE id = ?1 OR group_id = ?1)"),
        remove(database, "DELETE FROM snapshots WHERE id = ?1 OR group_id = ?1"),
        remove_group(database, "DELETE FROM snapshot_groups WHERE id = ?") {}

  // In a transaction of the caller's.
  bool Insert(const SnapshotRecord& record) {
    const bool inserted = Use(insert, record.id, record.name, record.group_id, record.source_volume_id, record.pool,
                              std::string(StateText(record.state)), static_cast<std::int64_t>(record.bytes),
                              record.fs_type, record.created_at)
                              .Exec() == 1;
    if (inserted && record.block_only) Use(set_block_only, record.id).Exec();
    if (inserted && record.restore_bytes != 0 && record.restore_bytes != record.bytes) {
      Use(set_restore_size, record.id, static_cast<std::int64_t>(record.restore_bytes)).Exec();
    }
    return inserted;
  }

  SQLite::Database& database;
  SQLite::Statement insert, insert_group, move, move_group, move_members, set_block_only, set_restore_size,
      unset_details, remove, remove_group;
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
  CatalogDatabase::Connection& connection = database_->writer();
  const std::lock_guard<std::mutex> lock(connection.mutex);
  return Guarded(what, database_->path(), [&] {
    MakeTables(connection.database);
    if (writer_ == nullptr) writer_ = std::make_unique<Writer>(connection.database);
    return action(*writer_);
  });
}

template <typename Value, typename Action>
absl::StatusOr<Value> SnapshotStore::Read(Action action) {
  CatalogDatabase::Connection& connection = database_->reader();
  const std::lock_guard<std::mutex> lock(connection.mutex);
  return Guarded("look up snapshots in", database_->path(), [&]() -> Value {
    if (reader_ == nullptr && !HasTables(connection.database)) return {};
    if (reader_ == nullptr) reader_ = std::make_unique<Reader>(connection.database);
    return action(*reader_);
  });
}

absl::StatusOr<std::unique_ptr<SnapshotStore>> SnapshotStore::Open(std::shared_ptr<CatalogDatabase> database) {
  std::unique_ptr<SnapshotStore> store(new SnapshotStore(std::move(database)));
  const absl::Status made = store->Write("open", [](Writer&) {});
  if (absl::IsResourceExhausted(made)) {  // only a plugin that runs can make room
    log::Warning("there is no room for the tables of the snapshots: they are made with the first one",
                 {{"cause", Message(made)}});
    return store;
  }
  MOORING_RETURN_IF_ERROR(made);
  return store;
}

absl::StatusOr<bool> SnapshotStore::Insert(const SnapshotRecord& snapshot) {
  return Write("add a snapshot to", [&](Writer& writer) {
    SQLite::Transaction both(writer.database, SQLite::TransactionBehavior::IMMEDIATE);
    const bool inserted = writer.Insert(snapshot);
    both.commit();
    return inserted;
  });
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

absl::Status SnapshotStore::Remove(const std::string& id) {
  return Write("remove a snapshot from", [&](Writer& writer) {
    SQLite::Transaction all(writer.database, SQLite::TransactionBehavior::IMMEDIATE);
    Use(writer.unset_details, id).Exec();
    Use(writer.remove, id).Exec();
    Use(writer.remove_group, id).Exec();
    all.commit();
  });
}

absl::StatusOr<std::optional<SnapshotRecord>> SnapshotStore::FindById(const std::string& id) {
  return Read<std::optional<SnapshotRecord>>([&](Reader& reader) {
    Use row(reader.by_id, id);
    return OneIn(row, SnapshotIn);
  });
}

absl::StatusOr<std::optional<SnapshotRecord>> SnapshotStore::FindByName(const std::string& name) {
  return Read<std::optional<SnapshotRecord>>([&](Reader& reader) {
    Use row(reader.by_name, name);
    return OneIn(row, SnapshotIn);
  });
}

absl::StatusOr<std::optional<GroupRecord>> SnapshotStore::FindGroupById(const std::string& id) {
  return Read<std::optional<GroupRecord>>([&](Reader& reader) {
    Use row(reader.group_by_id, id);
    return OneIn(row, GroupIn);
  });
}

absl::StatusOr<std::optional<GroupRecord>> SnapshotStore::FindGroupByName(const std::string& name) {
  return Read<std::optional<GroupRecord>>([&](Reader& reader) {
    Use row(reader.group_by_name, name);
    return OneIn(row, GroupIn);
  });
}

absl::StatusOr<std::vector<SnapshotRecord>> SnapshotStore::Members(const std::string& group_id) {
  return Read<std::vector<SnapshotRecord>>([&](Reader& reader) {
    Use row(reader.members, group_id);
    return SnapshotsIn(row);
  });
}

absl::StatusOr<std::vector<SnapshotRecord>> SnapshotStore::ListReady(const SnapshotFilter& filter) {
  if (!filter.id.empty()) {
    MOORING_ASSIGN_OR_RETURN(const std::optional<SnapshotRecord> one, FindById(filter.id));
    const bool wanted = one && one->state == SnapshotState::kReady && one->seq > filter.after && filter.most > 0 &&
                        (filter.source_volume_id.empty() || one->source_volume_id == filter.source_volume_id);
    return wanted ? std::vector<SnapshotRecord>{*one} : std::vector<SnapshotRecord>();
  }
  return Read<std::vector<SnapshotRecord>>([&](Reader& reader) {
    const auto most = static_cast<std::int64_t>(filter.most);
    if (filter.source_volume_id.empty()) {
      Use row(reader.list, filter.after, most);
      return SnapshotsIn(row);
    }
    Use row(reader.list_of_source, filter.after, most, filter.source_volume_id);
    return SnapshotsIn(row);
  });
}

absl::StatusOr<std::vector<SnapshotRecord>> SnapshotStore::ListUnfinished() {
  return Read<std::vector<SnapshotRecord>>([](Reader& reader) {
    Use row(reader.unfinished);
    return SnapshotsIn(row);
  });
}

absl::StatusOr<std::vector<GroupRecord>> SnapshotStore::ListUnfinishedGroups() {
  return Read<std::vector<GroupRecord>>([](Reader& reader) {
    std::vector<GroupRecord> groups;
    for (Use row(reader.unfinished_groups); row.Step();) groups.push_back(GroupIn(row));
    return groups;
  });
}

absl::StatusOr<std::uint64_t> SnapshotStore::BytesIn(const std::string& pool) {
  return Read<std::uint64_t>([&pool](Reader& reader) {
    Use row(reader.bytes_in, pool);
    return row.Step() ? static_cast<std::uint64_t>(row.Number(0)) : 0;
  });
}

absl::StatusOr<std::vector<PoolCount>> SnapshotStore::CountByPool() {
  return Guarded("count the snapshots of", database_->path(), [this]() -> std::vector<PoolCount> {
    CatalogDatabase::Connection& counter = database_->counter();
    if (!HasTables(counter.database)) return {};
    return CountsIn(counter, "SELECT pool, state, COUNT(*), SUM(bytes) FROM snapshots GROUP BY 1, 2");
  });
}

absl::StatusOr<std::vector<UnfinishedRecord>> SnapshotStore::NameUnfinished() {
  return Guarded("list the unfinished snapshots of", database_->path(), [this]() -> std::vector<UnfinishedRecord> {
    CatalogDatabase::Connection& counter = database_->counter();
    if (!HasTables(counter.database)) return {};
    return UnfinishedIn(counter, "SELECT id, pool FROM snapshots WHERE state <> 'ready'");
  });
}

absl::StatusOr<std::vector<std::string>> SnapshotStore::AllIds() {
  return Read<std::vector<std::string>>([](Reader& reader) {
    std::vector<std::string> ids;
    for (Use row(reader.ids); row.Step();) ids.push_back(row.Text(0));
    return ids;
  });
}

}  // namespace mooring
