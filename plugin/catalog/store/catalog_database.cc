#include "plugin/catalog/store/catalog_database.h"

#include <SQLiteCpp/SQLiteCpp.h>

#include <string>
#include <utility>

#include "base/status.h"

namespace mooring {
namespace {

constexpr int kSchemaVersion = 1;

// The members of a group of snapshots share its name, so only the other snapshots' names are unique.
constexpr char kTables[] = R"(
  CREATE TABLE node (number INTEGER PRIMARY KEY CHECK (number = 1), id TEXT NOT NULL);
  CREATE TABLE volumes (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL UNIQUE,
    state TEXT NOT NULL CHECK (state IN ('creating', 'ready', 'deleting')),
    capacity_bytes INTEGER NOT NULL,
    asked_bytes INTEGER NOT NULL DEFAULT 0,
    fs_type TEXT NOT NULL,
    pool TEXT NOT NULL DEFAULT 'default',
    source TEXT NOT NULL DEFAULT '',
    propagation TEXT NOT NULL DEFAULT '',
    tuning TEXT NOT NULL DEFAULT '',
    ephemeral TEXT NOT NULL DEFAULT '',
    block_only INTEGER NOT NULL DEFAULT 0);
  CREATE INDEX unfinished_volumes ON volumes(state) WHERE state <> 'ready';
  CREATE INDEX ephemeral_volumes ON volumes(seq) WHERE ephemeral <> '';
  CREATE TABLE publications (
    volume_id TEXT NOT NULL REFERENCES volumes(id) ON DELETE CASCADE,
    node_id TEXT NOT NULL,
    access_type TEXT NOT NULL,
    capability TEXT NOT NULL,
    read_only INTEGER NOT NULL,
    PRIMARY KEY (volume_id, node_id)) WITHOUT ROWID;
  CREATE INDEX publications_by_node ON publications(node_id);
  CREATE TABLE snapshots (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    group_id TEXT NOT NULL,
    source_volume_id TEXT NOT NULL,
    pool TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('creating', 'ready', 'deleting')),
    bytes INTEGER NOT NULL,
    restore_bytes INTEGER NOT NULL,
    fs_type TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    block_only INTEGER NOT NULL);
  CREATE UNIQUE INDEX snapshot_names ON snapshots(name) WHERE group_id = '';
  CREATE INDEX snapshots_by_source ON snapshots(source_volume_id, seq);
  CREATE INDEX snapshots_by_group ON snapshots(group_id) WHERE group_id <> '';
  CREATE INDEX unfinished_snapshots ON snapshots(state) WHERE state <> 'ready';
  CREATE TABLE snapshot_groups (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL UNIQUE,
    state TEXT NOT NULL CHECK (state IN ('creating', 'ready', 'deleting')),
    created_at INTEGER NOT NULL);
)";

// Throws if a table is missing or has another number of columns: the file has this version, but is not a catalog.
void CheckTables(SQLite::Database& database) {
  for (const char* const row : {"volumes VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)", "publications VALUES (?,?,?,?,?)",
                                "snapshots VALUES (?,?,?,?,?,?,?,?,?,?,?,?)", "snapshot_groups VALUES (?,?,?,?,?)"}) {
    const SQLite::Statement fits(database, std::string("INSERT INTO ") + row);
  }
}

DatabaseFile CatalogFile(const std::string& path) {
  return {.path = path,
          .name = "the volume catalog",
          .if_damaged =
              "Stop the plugin and put a copy of it back (docs/backup.md), or move it away, and the volumes with it, "
              "to start with an empty catalog",
          .if_other =
              "start the version of mooring-plugin that wrote it, or move it away, and the volumes with it, to start "
              "with an empty catalog (docs/upgrade.md)"};
}

}  // namespace

CatalogDatabase::CatalogDatabase(DatabaseFile file, SQLite::Database writer)
    : file_(std::move(file)), writer_(std::move(writer)), reader_(OpenReader(file_.path)) {}

absl::StatusOr<std::shared_ptr<CatalogDatabase>> CatalogDatabase::Open(const std::string& path,
                                                                       const std::function<absl::Status()>& may_begin) {
  const DatabaseFile file = CatalogFile(path);
  MOORING_RETURN_IF_ERROR(MakePrivateFile(file));
  return Guarded("open", file, [&]() -> absl::StatusOr<std::shared_ptr<CatalogDatabase>> {
    SQLite::Database writer = OpenWriter(path, Sync::kFull);
    MOORING_RETURN_IF_ERROR(PrepareSchema(writer, file, kSchemaVersion, kTables, may_begin));
    CheckTables(writer);
    return std::make_shared<CatalogDatabase>(file, std::move(writer));
  });
}

template <typename Action>
auto CatalogDatabase::ReadTable(std::string_view what, Action action) {
  const std::lock_guard<std::mutex> lock(counter_mutex_);
  return Guarded(what, file_, [&] {
    if (!counter_) counter_.emplace(OpenReader(file_.path));
    return counter_->Run(what, file_, action);
  });
}

absl::StatusOr<std::vector<PoolCount>> CatalogDatabase::Count(std::string_view what, std::string_view select) {
  return ReadTable(what, [&](Statements& statements) {
    std::vector<PoolCount> counts;
    for (Use row = statements(select); row.Step();) {
      counts.push_back({.pool = row.Text(0),
                        .state = ParseState(row.Text(1)),
                        .count = static_cast<std::uint64_t>(row.Number(2)),
                        .bytes = static_cast<std::uint64_t>(row.Number(3))});
    }
    return counts;
  });
}

absl::StatusOr<std::vector<UnfinishedRecord>> CatalogDatabase::NameUnfinished(std::string_view what,
                                                                              std::string_view select) {
  return ReadTable(what, [&](Statements& statements) {
    std::vector<UnfinishedRecord> records;
    for (Use row = statements(select); row.Step();) records.push_back({.id = row.Text(0), .pool = row.Text(1)});
    return records;
  });
}

}  // namespace mooring
