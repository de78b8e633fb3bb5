#include "plugin/node/node_store.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>

#include <mutex>
#include <string_view>
#include <utility>

#include "base/file/unique_fd.h"
#include "base/log.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "plugin/model/stored_propagation.h"
#include "sqlite/set_aside.h"
#include "sqlite/sqlite.h"

namespace mooring {
namespace {

constexpr int kSchema = 1;
constexpr char kInMemory[] = ":memory:";

constexpr char kTables[] = R"(
  CREATE TABLE IF NOT EXISTS boot (id TEXT NOT NULL);
  CREATE TABLE IF NOT EXISTS uses (
    path TEXT PRIMARY KEY, volume_id TEXT NOT NULL, role INTEGER NOT NULL, done INTEGER NOT NULL,
    access_type INTEGER NOT NULL, mode INTEGER NOT NULL, read_only INTEGER NOT NULL,
    capability TEXT NOT NULL, options TEXT NOT NULL, device TEXT NOT NULL) WITHOUT ROWID;
  CREATE INDEX IF NOT EXISTS uses_by_volume ON uses (volume_id);
)";

// Beside the uses, of the few that have one: programs that know nothing of it read and write the uses as before. It
// goes with the use, also with one that is replaced, and whichever program does that: triggers are the file's.
constexpr char kPropagations[] = R"(
  CREATE TABLE IF NOT EXISTS propagations (
    path TEXT PRIMARY KEY, asked TEXT NOT NULL, propagation TEXT NOT NULL) WITHOUT ROWID;
  CREATE TRIGGER IF NOT EXISTS propagation_of_use AFTER DELETE ON uses
    BEGIN DELETE FROM propagations WHERE path = OLD.path; END;
  CREATE TRIGGER IF NOT EXISTS propagation_of_replaced_use AFTER INSERT ON uses
    BEGIN DELETE FROM propagations WHERE path = NEW.path; END;
)";

constexpr char kColumns[] = "path, volume_id, role, done, access_type, mode, read_only, capability, options, device";
constexpr char kWithPropagations[] = "asked, propagation FROM uses LEFT JOIN propagations USING (path)";
constexpr char kWithoutPropagations[] = "'', '' FROM uses";

VolumeUse FromRow(SQLite::Statement& row) {
  VolumeUse use;
  use.path = row.getColumn(0).getString();
  use.volume_id = row.getColumn(1).getString();
  use.role = static_cast<VolumeUse::Role>(row.getColumn(2).getInt());
  use.done = row.getColumn(3).getInt() != 0;
  use.access_type = static_cast<AccessType>(row.getColumn(4).getInt());
  use.mode = static_cast<AccessMode>(row.getColumn(5).getInt());
  use.read_only = row.getColumn(6).getInt() != 0;
  use.capability = row.getColumn(7).getString();
  use.options = row.getColumn(8).getString();
  use.device = row.getColumn(9).getString();
  use.asked_propagation = PropagationIn(row.getColumn(10).getString());  // no row, no word
  use.propagation = PropagationIn(row.getColumn(11).getString()).value_or(Propagation::kInherit);
  return use;
}

std::vector<UseCount> CountIn(SQLite::Database& database) {
  SQLite::Statement row(database, "SELECT role, access_type, COUNT(*) FROM uses WHERE done GROUP BY 1, 2");
  std::vector<UseCount> counts;
  while (row.executeStep()) {
    counts.push_back({.role = static_cast<VolumeUse::Role>(row.getColumn(0).getInt()),
                      .access_type = static_cast<AccessType>(row.getColumn(1).getInt()),
                      .count = static_cast<std::uint64_t>(row.getColumn(2).getInt64())});
  }
  return counts;
}

void BindAll(SQLite::Statement& statement, const VolumeUse& use) {
  statement.bind(1, use.path);
  statement.bind(2, use.volume_id);
  statement.bind(3, static_cast<int>(use.role));
  statement.bind(4, use.done ? 1 : 0);
  statement.bind(5, static_cast<int>(use.access_type));
  statement.bind(6, static_cast<int>(use.mode));
  statement.bind(7, use.read_only ? 1 : 0);
  statement.bind(8, use.capability);
  statement.bind(9, use.options);
  statement.bind(10, use.device);
}

absl::Status ToStatus(const std::exception& error, const std::string& path) {
  constexpr int kPrimary = 0xFF;
  const std::string message = fmt::format("the node's records in {}: {}", Quote(path), error.what());
  const auto* from_sqlite = dynamic_cast<const SQLite::Exception*>(&error);
  if (from_sqlite == nullptr) return Internal(message);
  if (IsDiskFull(*from_sqlite)) return ResourceExhausted(message + ": make room on that filesystem");
  const int code = from_sqlite->getErrorCode() & kPrimary;
  if (code == SQLITE_BUSY || code == SQLITE_LOCKED) {
    return Aborted(message + ": another process holds them, call again later");
  }
  return Internal(message);
}

// For root alone. Only ever creates: a close while SQLite has the file open would drop SQLite's locks.
void MakePrivateFile(const std::string& path) {
  if (path == kInMemory) return;
  UniqueFd(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600)).reset();
}

// Writes nothing where the tables are there: the disk may be full.
void PrepareSchema(SQLite::Database& database) {
  SQLite::Transaction transaction(database, SQLite::TransactionBehavior::IMMEDIATE);
  const int schema = database.execAndGet("PRAGMA user_version").getInt();
  if (schema > kSchema) {
    throw SQLite::Exception(fmt::format("its schema {} is newer than this program's {}", schema, kSchema));
  }
  if (schema != kSchema) {
    database.exec(kTables);
    database.exec(fmt::format("PRAGMA user_version = {}", kSchema));
  }
  transaction.commit();
}

bool HasPropagations(const SQLite::Database& database) { return database.tableExists("propagations"); }

// In a file of an older program. Where the disk is full, they are made when the first use has one.
void PreparePropagations(SQLite::Database& database) {
  try {
    SQLite::Transaction transaction(database, SQLite::TransactionBehavior::IMMEDIATE);
    database.exec(kPropagations);
    transaction.commit();
  } catch (const SQLite::Exception& error) {
    if (!IsDiskFull(error)) throw;
  }
}

// Not synchronous: what a power cut takes away, it takes the mounts with.
SQLite::Database OpenDatabase(const std::string& path) {
  MakePrivateFile(path);
  SQLite::Database database(path, SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE, static_cast<int>(kBusyTimeout.count()));
  UseWal(database);
  database.exec("PRAGMA synchronous = OFF");
  CheckPages(database);
  PrepareSchema(database);
  PreparePropagations(database);
  return database;
}

void ForgetOtherBoots(SQLite::Database& database, const std::string& boot_id) {
  SQLite::Transaction transaction(database, SQLite::TransactionBehavior::IMMEDIATE);
  SQLite::Statement known(database, "SELECT 1 FROM boot WHERE id = ?");
  known.bind(1, boot_id);
  if (!known.executeStep()) {
    known.reset();
    database.exec("DELETE FROM uses; DELETE FROM boot");
    SQLite::Statement insert(database, "INSERT INTO boot (id) VALUES (?)");
    insert.bind(1, boot_id);
    insert.exec();
  }
  transaction.commit();
}

}  // namespace

struct NodeStore::Database {
  Database(std::string file, const std::string& boot_id) : path(std::move(file)), connection(OpenDatabase(path)) {
    ForgetOtherBoots(connection, boot_id);
    put.emplace(connection, fmt::format("INSERT OR REPLACE INTO uses ({}) VALUES (?,?,?,?,?,?,?,?,?,?)", kColumns));
    remove.emplace(connection, "DELETE FROM uses WHERE path = ?");
    PrepareSelects();
  }

  void PrepareSelects() {
    has_propagations = HasPropagations(connection);
    const std::string select =
        fmt::format("SELECT {}, {}", kColumns, has_propagations ? kWithPropagations : kWithoutPropagations);
    get.emplace(connection, select + " WHERE path = ?");
    of_volume.emplace(connection, select + " WHERE volume_id = ? ORDER BY path");
    all.emplace(connection, select + " ORDER BY path");
  }

  std::mutex mutex;
  std::string path;
  SQLite::Database connection;

  std::mutex counter_mutex;
  std::optional<SQLite::Database> counter;  // from the first who counts
  bool has_propagations = false;            // if not, another process may have made them meanwhile
  std::optional<SQLite::Statement> put, remove, get, of_volume, all;

  // Runs `work` with the statement reset before and after; SQLite's exceptions end here.
  template <typename Work>
  absl::Status Run(std::optional<SQLite::Statement>& statement, Work work) {
    const std::lock_guard<std::mutex> lock(mutex);
    try {
      if (!has_propagations && HasPropagations(connection)) PrepareSelects();
      statement->reset();
      work(*statement);
      statement->reset();
      return absl::OkStatus();
    } catch (const std::exception& error) {
      if (statement) statement->tryReset();
      return ToStatus(error, path);
    }
  }

  // What is in memory is this connection's alone.
  std::vector<UseCount> Count() {
    if (path == kInMemory) {
      const std::lock_guard<std::mutex> lock(mutex);
      return CountIn(connection);
    }
    const std::lock_guard<std::mutex> lock(counter_mutex);
    if (!counter) counter.emplace(path, SQLite::OPEN_READONLY, static_cast<int>(kBusyTimeout.count()));
    return CountIn(*counter);
  }

  template <typename Bind>
  absl::StatusOr<std::vector<VolumeUse>> Select(std::optional<SQLite::Statement>& statement, Bind bind) {
    std::vector<VolumeUse> uses;
    MOORING_RETURN_IF_ERROR(Run(statement, [&](SQLite::Statement& rows) {
      bind(rows);
      while (rows.executeStep()) uses.push_back(FromRow(rows));
    }));
    return uses;
  }
};

NodeStore::NodeStore(std::unique_ptr<Database> database) : database_(std::move(database)) {}
NodeStore::~NodeStore() = default;

absl::StatusOr<std::unique_ptr<NodeStore>> NodeStore::TryOpen(const std::string& path, const std::string& boot_id) {
  try {
    return std::unique_ptr<NodeStore>(new NodeStore(std::make_unique<Database>(path, boot_id)));
  } catch (const SQLite::Exception& error) {
    const absl::Status failed = ToStatus(error, path);
    return IsDamaged(error) ? absl::DataLossError(Message(failed)) : failed;
  } catch (const std::exception& error) {
    return ToStatus(error, path);
  }
}

absl::StatusOr<std::unique_ptr<NodeStore>> NodeStore::Open(const std::string& path, const std::string& boot_id) {
  const auto open = [&] { return RepeatWhileBusy([&] { return TryOpen(path, boot_id); }); };
  absl::StatusOr<std::unique_ptr<NodeStore>> store = open();
  if (absl::IsDataLoss(store.status())) {
    MOORING_ASSIGN_OR_RETURN(const std::string aside, SetAside(path));
    log::Warning("the records of this node were damaged: they are built anew from what is mounted",
                 {{"set_aside", aside}, {"cause", Message(store.status())}});
    store = open();
  }
  if (absl::IsDataLoss(store.status())) return Internal(Message(store.status()));
  if (!absl::IsResourceExhausted(store.status())) return store;
  // Only a plugin that runs can make room. Records of another boot are void, and mounts of this one are found again.
  log::Warning("the records of this node are kept in memory until the next start",
               {{"cause", Message(store.status())}});
  return TryOpen(kInMemory, boot_id);
}

// One without a propagation of its own is one statement, as the publish path likes it.
absl::Status NodeStore::Put(const VolumeUse& use) {
  const bool plain = !use.asked_propagation && use.propagation == Propagation::kInherit;
  return database_->Run(database_->put, [&](SQLite::Statement& statement) {
    std::optional<SQLite::Transaction> both;
    if (!plain) both.emplace(database_->connection, SQLite::TransactionBehavior::IMMEDIATE);
    BindAll(statement, use);
    statement.exec();
    if (plain) return;
    if (!database_->has_propagations) database_->connection.exec(kPropagations);
    SQLite::Statement propagation(database_->connection, "INSERT INTO propagations VALUES (?, ?, ?)");
    propagation.bind(1, use.path);
    propagation.bind(2, PropagationText(use.asked_propagation));
    propagation.bind(3, PropagationText(use.propagation));
    propagation.exec();
    both->commit();
  });
}

absl::Status NodeStore::Remove(const std::string& path) {
  return database_->Run(database_->remove, [&](SQLite::Statement& statement) {
    statement.bind(1, path);
    statement.exec();
  });
}

absl::StatusOr<std::optional<VolumeUse>> NodeStore::Get(const std::string& path) {
  MOORING_ASSIGN_OR_RETURN(std::vector<VolumeUse> found,
                           database_->Select(database_->get, [&](SQLite::Statement& s) { s.bind(1, path); }));
  return found.empty() ? std::nullopt : std::optional<VolumeUse>(std::move(found.front()));
}

absl::StatusOr<std::vector<VolumeUse>> NodeStore::OfVolume(const std::string& volume_id) {
  return database_->Select(database_->of_volume, [&](SQLite::Statement& s) { s.bind(1, volume_id); });
}

absl::StatusOr<std::vector<VolumeUse>> NodeStore::All() {
  return database_->Select(database_->all, [](SQLite::Statement&) {});
}

absl::StatusOr<std::vector<UseCount>> NodeStore::CountUses() {
  try {
    return database_->Count();
  } catch (const std::exception& error) {
    return ToStatus(error, database_->path);
  }
}

}  // namespace mooring
