#include "plugin/catalog/store/catalog_files.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "base/host.h"
#include "base/log.h"
#include "base/text/quote.h"

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

// A node is known here from the first start of its plugin with this pool. `identity` and `uses` are those of pools that
// the plugin mounts itself. Older files of other pools lack them.
constexpr char kSharedTables[] = R"(
  CREATE TABLE pool (
    number INTEGER PRIMARY KEY CHECK (number = 1), tag TEXT NOT NULL, name TEXT NOT NULL, identity TEXT NOT NULL);
  CREATE TABLE nodes (id TEXT PRIMARY KEY, max_volumes INTEGER NOT NULL, boot_id TEXT NOT NULL) WITHOUT ROWID;
  CREATE TABLE uses (
    volume_id TEXT NOT NULL REFERENCES volumes(id) ON DELETE CASCADE,
    node_id TEXT NOT NULL,
    boot_id TEXT NOT NULL,
    access_type TEXT NOT NULL,
    capability TEXT NOT NULL,
    read_only INTEGER NOT NULL,
    PRIMARY KEY (volume_id, node_id)) WITHOUT ROWID;
)";

// Throws if a table is missing or has another number of columns: the file has this version, but is not a catalog.
void CheckTables(SQLite::Database& database) {
  for (const char* const row : {"volumes VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)", "publications VALUES (?,?,?,?,?)",
                                "snapshots VALUES (?,?,?,?,?,?,?,?,?,?,?,?)", "snapshot_groups VALUES (?,?,?,?,?)"}) {
    const SQLite::Statement fits(database, std::string("INSERT INTO ") + row);
  }
}

constexpr std::size_t kIdentityBytes = 16;

// Tables of the local file about shared pools. Older files lack the tables, and older programs ignore them.
constexpr PoolMemory kIdentities = {"pool_identities", "identity"};  // of pools that the plugin mounts itself
constexpr PoolMemory kTags = {"pool_tags", "tag"};                   // of the other ones

DatabaseFile SharedCatalogFile(const std::string& path) {
  return {.path = path,
          .name = "the volume catalog of the shared pool",
          .if_damaged = "Stop the plugins of all hosts, and put a copy of it back (docs/backup.md)",
          .if_other = "start the version of mooring-plugin that wrote it (docs/upgrade.md)"};
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

std::pair<dev_t, ino_t> FileAt(const std::string& path) {
  struct stat status = {};
  return ::stat(path.c_str(), &status) == 0 ? std::pair(status.st_dev, status.st_ino) : std::pair<dev_t, ino_t>();
}

// Empty: there is no such file, or it has no identity. This takes no lock, so a host with the name of another one does
// not disturb that. The identity is never changed.
absl::StatusOr<std::string> IdentityIn(const std::string& path) {
  struct stat status = {};
  if (::stat(path.c_str(), &status) != 0) {
    if (errno == ENOENT) return "";
    return ErrnoStatus(errno, "look at", path);
  }
  return Guarded("look up the identity in", SharedCatalogFile(path), [&]() -> std::string {
    SQLite::Database database("file:" + path + "?immutable=1", SQLite::OPEN_READONLY | SQLite::OPEN_URI);
    const char kHas[] = "SELECT COUNT(*) FROM pragma_table_info('pool') WHERE name = 'identity'";
    if (database.execAndGet(kHas).getInt() == 0) return "";
    return CleanText(database.execAndGet("SELECT identity FROM pool").getString());
  });
}

}  // namespace

CatalogDatabase::CatalogDatabase(DatabaseFile file, SQLite::Database writer, OpenToRead open)
    : file_(std::move(file)), open_(open), writer_(std::move(writer)), reader_(open_(file_.path)) {}

absl::StatusOr<std::shared_ptr<CatalogDatabase>> CatalogDatabase::Open(const std::string& path,
                                                                       const std::function<absl::Status()>& may_begin) {
  const DatabaseFile file = CatalogFile(path);
  MOORING_RETURN_IF_ERROR(MakePrivateFile(file));
  return Guarded("open", file, [&]() -> absl::StatusOr<std::shared_ptr<CatalogDatabase>> {
    SQLite::Database writer = OpenWriter(path, Sync::kFull);
    MOORING_RETURN_IF_ERROR(PrepareSchema(writer, file, kSchemaVersion, kTables, may_begin));
    CheckTables(writer);
    return std::make_shared<CatalogDatabase>(file, std::move(writer), OpenReader);
  });
}

// A reader may have to roll the journal of a dead host back, so its connection can write.
absl::StatusOr<std::shared_ptr<CatalogDatabase>> CatalogDatabase::OpenShared(
    const std::string& path, const std::string& pool, const std::string& new_tag,
    const std::function<absl::Status()>& may_begin) {
  const DatabaseFile file = SharedCatalogFile(path);
  MOORING_RETURN_IF_ERROR(MakePrivateFile(file));
  return Guarded("open", file, [&]() -> absl::StatusOr<std::shared_ptr<CatalogDatabase>> {
    SQLite::Database writer = mooring::OpenShared(path);
    const std::string about =
        fmt::format("INSERT INTO pool VALUES (1, '{}', '{}', '{}');", new_tag, pool, RandomHex(kIdentityBytes));
    const std::string tables = std::string(kTables) + kSharedTables + about;
    MOORING_RETURN_IF_ERROR(PrepareSchema(writer, file, kSchemaVersion, tables.c_str(), may_begin));
    CheckTables(writer);
    const absl::Status room = Guarded("make room in", file, [&] { KeepRoom(writer, path); });
    if (!room.ok() && !absl::IsResourceExhausted(room)) return room;
    const std::string name = writer.execAndGet("SELECT name FROM pool").getString();
    if (name != pool) {
      return FailedPrecondition("the shared pool has the name {} on its other hosts, and {} here: give it that name",
                                Quote(name), Quote(pool));
    }
    std::string tag = writer.execAndGet("SELECT tag FROM pool").getString();
    auto database = std::make_shared<CatalogDatabase>(file, std::move(writer), mooring::OpenShared);
    database->pool_ = pool;
    database->tag_ = std::move(tag);
    database->opened_ = FileAt(path);
    return database;
  });
}

absl::Status CatalogDatabase::ReopenIfMoved() {
  const std::pair<dev_t, ino_t> now = FileAt(file_.path);
  if (now == opened_) return absl::OkStatus();
  return Guarded("open again", file_, [&] {
    writer_.Replace(open_(file_.path));
    reader_.Replace(open_(file_.path));
    const std::lock_guard<std::mutex> lock(counter_mutex_);
    counter_.reset();
    opened_ = now;
  });
}

template <typename Action>
auto CatalogDatabase::ReadTable(std::string_view what, Action action) {
  const std::lock_guard<std::mutex> lock(counter_mutex_);
  return Guarded(what, file_, [&] {
    if (!counter_) counter_.emplace(open_(file_.path));
    return counter_->Run(what, file_, action);
  });
}

absl::StatusOr<std::vector<PoolCount>> CatalogDatabase::Count(std::string_view what, std::string_view select) {
  return ReadTable(what, [&](Statements& statements) {
    std::vector<PoolCount> counts;
    for (Use row = statements(select); row.Step();) {
      counts.push_back({.pool = WordIn(row, 0),
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
    for (Use row = statements(select); row.Step();) records.push_back({.id = WordIn(row, 0), .pool = WordIn(row, 1)});
    return records;
  });
}

absl::StatusOr<std::string> CatalogFiles::AddShared(const std::string& path, const std::string& pool,
                                                    const std::function<absl::Status()>& may_begin) {
  const std::string new_tag = RandomHex(kPoolTagBytes);
  MOORING_ASSIGN_OR_RETURN(std::shared_ptr<CatalogDatabase> opened, RepeatWhileBusy([&] {
                             return CatalogDatabase::OpenShared(path, pool, new_tag, may_begin);
                           }));
  for (const File& file : files_) {
    if (file.tag != opened->tag()) continue;
    return FailedPrecondition("the catalog {} is a copy of that of pool {}: give each pool a directory of its own",
                              Quote(path), file.pool);
  }
  files_.push_back({.pool = pool, .tag = opened->tag(), .database = opened});
  const absl::StatusOr<std::string> before = Remembered(kTags, pool);
  if (before.ok() && !before->empty() && *before != opened->tag()) {
    log::Warning("a shared pool has other records than before; volumes of the old ones are refused",
                 {{"pool", pool}, {"records", path}, {"tag", opened->tag()}, {"tag_before", *before}});
  }
  if (const absl::Status kept = Remember(kTags, pool, opened->tag()); !kept.ok()) {
    log::Warning("a start without the mount of a shared pool will not be noticed",
                 {{"pool", pool}, {"cause", Message(kept)}});
  }
  return opened->tag();
}

absl::Status CatalogFiles::CheckBegins(const std::string& path, const std::string& pool) const {
  MOORING_ASSIGN_OR_RETURN(const std::string tag, Remembered(kTags, pool));
  if (tag.empty()) return absl::OkStatus();
  return FailedPrecondition(
      "this plugin has had the pool with the tag {}, and the records {} are missing or empty. The filesystem of the "
      "pool may not be mounted. Nothing was changed. Mount it. Or, for a new pool, choose another name, or make the "
      "plugin forget the old one (docs/backends.md, \"Shared pools\")",
      tag, Quote(path));
}

void CatalogFiles::AddLater(const std::string& pool, const std::string& tag, std::function<absl::Status()> answers) {
  files_.push_back({.pool = pool, .tag = tag, .answers = std::move(answers), .is_late = true});
}

absl::StatusOr<CatalogDatabase*> CatalogFiles::OpenLater(const std::string& path, const std::string& pool,
                                                         const std::function<absl::Status()>& may_begin) {
  const auto file = std::find_if(files_.begin(), files_.end(), [&](const File& other) { return other.pool == pool; });
  if (file == files_.end()) return Internal("pool {} was not added", pool);
  MOORING_RETURN_IF_ERROR(CheckIdentity(path, pool));
  if (file->database != nullptr) {
    MOORING_RETURN_IF_ERROR(file->database->ReopenIfMoved());
    return file->database.get();
  }
  MOORING_ASSIGN_OR_RETURN(std::shared_ptr<CatalogDatabase> opened, RepeatWhileBusy([&] {
                             return CatalogDatabase::OpenShared(path, pool, file->tag, may_begin);
                           }));
  if (opened->tag() != file->tag) {
    return FailedPrecondition("the catalog {} is one of a pool with image files: give this pool a directory of its own",
                              Quote(path));
  }
  MOORING_ASSIGN_OR_RETURN(const std::string identity, IdentityIn(path));
  MOORING_RETURN_IF_ERROR(Remember(kIdentities, pool, identity));
  file->database = std::move(opened);
  return file->database.get();
}

absl::Status CatalogFiles::CheckIdentity(const std::string& path, const std::string& pool) const {
  MOORING_ASSIGN_OR_RETURN(const std::string expected, Remembered(kIdentities, pool));
  if (expected.empty()) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(const std::string found, IdentityIn(path));
  if (found == expected) return absl::OkStatus();
  return FailedPrecondition(
      "this is not the directory that the pool has been in: its records have the identity {}, and here {}. The server "
      "may lack a disk, or the address may lead to another server. Nothing was changed. Bring the old directory back, "
      "or use this one under another pool name (docs/backends.md, \"NFS\")",
      expected, found.empty() ? "are none" : "is " + found);
}

absl::StatusOr<std::string> CatalogFiles::Remembered(const PoolMemory& memory, const std::string& pool) const {
  return local().Read("look up a pool in", [&](Statements& statements) -> std::string {
    Use table = statements("SELECT 1 FROM sqlite_master WHERE name = ?", std::string(memory.table));
    if (!table.Step()) return "";
    Use row = statements(fmt::format("SELECT {} FROM {} WHERE pool = ?", memory.column, memory.table), pool);
    return row.Step() ? row.Text(0) : "";
  });
}

absl::Status CatalogFiles::Remember(const PoolMemory& memory, const std::string& pool, const std::string& word) const {
  MOORING_ASSIGN_OR_RETURN(const std::string known, Remembered(memory, pool));
  if (known == word) return absl::OkStatus();  // a full disk takes no write, not even of the same value
  return local().Write("remember a pool in", [&](Statements& statements) {
    statements(fmt::format("CREATE TABLE IF NOT EXISTS {} (pool TEXT PRIMARY KEY, {} TEXT NOT NULL) WITHOUT ROWID",
                           memory.table, memory.column))
        .Exec();
    statements(fmt::format("INSERT OR REPLACE INTO {} VALUES (?, ?)", memory.table), pool, word).Exec();
  });
}

absl::StatusOr<CatalogDatabase*> CatalogFiles::Opened(const File& file) {
  MOORING_RETURN_IF_ERROR(file.answers());
  return file.database.get();
}

absl::StatusOr<CatalogDatabase*> CatalogFiles::OfPool(std::string_view pool) const {
  for (const File& file : files_) {
    if (!file.tag.empty() && file.pool == pool) return Opened(file);
  }
  return &local();
}

absl::StatusOr<CatalogDatabase*> CatalogFiles::OfTag(std::string_view tag) const {
  for (const File& file : files_) {
    if (file.tag == tag) return Opened(file);
  }
  return FailedPrecondition(
      "the shared pool with the tag {} is not one of this plugin's: start the plugin with that pool (--pool)", tag);
}

}  // namespace mooring
