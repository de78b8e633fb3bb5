#include "plugin/node/uses/node_store.h"

#include <SQLiteCpp/SQLiteCpp.h>

#include <mutex>
#include <string_view>
#include <utility>

#include "base/log.h"
#include "base/status.h"
#include "plugin/model/propagation_column.h"
#include "sqlite/set_aside.h"
#include "sqlite/sqlite.h"

namespace mooring {
namespace {

constexpr int kSchemaVersion = 1;

constexpr char kTables[] = R"(
  CREATE TABLE boot (id TEXT NOT NULL);
  CREATE TABLE uses (
    path TEXT PRIMARY KEY, volume_id TEXT NOT NULL, role INTEGER NOT NULL, done INTEGER NOT NULL,
    access_type INTEGER NOT NULL, mode INTEGER NOT NULL, read_only INTEGER NOT NULL,
    capability TEXT NOT NULL, options TEXT NOT NULL, device TEXT NOT NULL,
    asked_propagation TEXT NOT NULL, propagation TEXT NOT NULL) WITHOUT ROWID;
  CREATE INDEX uses_by_volume ON uses (volume_id);
)";

constexpr std::string_view kPut = "INSERT OR REPLACE INTO uses VALUES (?,?,?,?,?,?,?,?,?,?,?,?)";
constexpr std::string_view kPutNew = "INSERT OR IGNORE INTO uses VALUES (?,?,?,?,?,?,?,?,?,?,?,?)";

DatabaseFile NodeFile(const std::string& path) {
  return {.path = path,
          .name = "the node's records",
          .if_damaged = "Restart the plugin: it sets the file aside and makes the records from what is mounted",
          .if_other =
              "start the version of mooring-plugin that wrote it, or stop the plugin and remove the file: the next "
              "start makes the records from what is mounted"};
}

VolumeUse UseIn(Use& row) {
  return {.path = row.Text(0),
          .volume_id = row.Text(1),
          .role = static_cast<VolumeUse::Role>(row.Number(2)),
          .done = row.Number(3) != 0,
          .access_type = static_cast<AccessType>(row.Number(4)),
          .mode = static_cast<AccessMode>(row.Number(5)),
          .read_only = row.Number(6) != 0,
          .capability = row.Text(7),
          .options = row.Text(8),
          .device = row.Text(9),
          .asked_propagation = PropagationFromColumn(row.Text(10)),
          .propagation = PropagationFromColumn(row.Text(11)).value_or(Propagation::kInherit)};
}

std::vector<VolumeUse> UsesIn(Use&& row) {
  std::vector<VolumeUse> uses;
  while (row.Step()) uses.push_back(UseIn(row));
  return uses;
}

// The number of rows that are new or changed.
int Written(Statements& statements, std::string_view put, const VolumeUse& use) {
  return statements(put, use.path, use.volume_id, static_cast<int>(use.role), use.done ? 1 : 0,
                    static_cast<int>(use.access_type), static_cast<int>(use.mode), use.read_only ? 1 : 0,
                    use.capability, use.options, use.device, ToColumn(use.asked_propagation), ToColumn(use.propagation))
      .Exec();
}

// The mount helper has ended during the call. The record then tells the repeated call what was begun. After
// DEADLINE_EXCEEDED a conditional bind mounts nothing any more.
bool MayHaveMounted(const absl::Status& failure) { return absl::IsUnavailable(failure); }

std::vector<UseCount> CountIn(Statements& statements) {
  std::vector<UseCount> counts;
  Use row = statements("SELECT role, access_type, COUNT(*) FROM uses WHERE done GROUP BY 1, 2");
  while (row.Step()) {
    counts.push_back({.role = static_cast<VolumeUse::Role>(row.Number(0)),
                      .access_type = static_cast<AccessType>(row.Number(1)),
                      .count = static_cast<std::uint64_t>(row.Number(2))});
  }
  return counts;
}

// Throws SQLite::Exception, also if the table of the uses has other columns.
void ForgetOtherBoots(SQLite::Database& database, const std::string& boot_id) {
  const SQLite::Statement fits(database, std::string(kPut));
  SQLite::Transaction transaction(database, SQLite::TransactionBehavior::IMMEDIATE);
  Statements statements(database);
  if (statements("SELECT 1 FROM boot WHERE id = ?", boot_id).Step()) return;  // a full disk takes no write
  database.exec("DELETE FROM uses; DELETE FROM boot");
  statements("INSERT INTO boot (id) VALUES (?)", boot_id).Exec();
  transaction.commit();
}

}  // namespace

struct NodeStore::Database {
  Database(DatabaseFile in_file, SQLite::Database writer) : file(std::move(in_file)), connection(std::move(writer)) {}

  template <typename Action>
  auto Run(std::string_view what, Action action) {
    return connection.Run(what, file, action);
  }

  // A database in memory has no second connection.
  absl::StatusOr<std::vector<UseCount>> Count() {
    if (file.path == kInMemory) return Run("count", CountIn);
    const std::lock_guard<std::mutex> lock(counter_mutex);
    return Guarded("count", file, [&] {
      if (!counter) counter.emplace(OpenReader(file.path));
      return counter->Run("count", file, CountIn);
    });
  }

  const DatabaseFile file;
  SharedConnection connection;
  std::mutex counter_mutex;
  std::optional<SharedConnection> counter;  // is opened by the first call
};

NodeStore::NodeStore(std::unique_ptr<Database> database) : database_(std::move(database)) {}
NodeStore::~NodeStore() = default;

// The records are not synced: a power cut that loses them ends the mounts too. DATA_LOSS: the file is damaged.
absl::StatusOr<std::unique_ptr<NodeStore>> NodeStore::TryOpen(const std::string& path, const std::string& boot_id) {
  const DatabaseFile file = NodeFile(path);
  MOORING_RETURN_IF_ERROR(MakePrivateFile(file));
  ForgetSystemError();
  try {
    SQLite::Database connection = OpenWriter(path, Sync::kOff);
    CheckPages(connection);
    MOORING_RETURN_IF_ERROR(PrepareSchema(connection, file, kSchemaVersion, kTables));
    ForgetOtherBoots(connection, boot_id);
    return std::unique_ptr<NodeStore>(new NodeStore(std::make_unique<Database>(file, std::move(connection))));
  } catch (const SQLite::Exception& error) {
    const absl::Status failed = DatabaseError(error, "open", file, LastSystemError());
    return IsDamaged(error) ? absl::DataLossError(Message(failed)) : failed;
  }
}

absl::StatusOr<std::unique_ptr<NodeStore>> NodeStore::Open(const std::string& path, const std::string& boot_id) {
  const auto open = [&] { return RepeatWhileBusy([&] { return TryOpen(path, boot_id); }); };
  absl::StatusOr<std::unique_ptr<NodeStore>> store = open();
  if (absl::IsDataLoss(store.status())) {
    MOORING_ASSIGN_OR_RETURN(const std::string aside, SetAside(path));
    log::Warning("the records of this node were damaged: the plugin makes them again from the mounts",
                 {{"set_aside", aside}, {"cause", Message(store.status())}});
    store = open();
  }
  if (absl::IsDataLoss(store.status())) return Internal(Message(store.status()));
  if (!absl::IsResourceExhausted(store.status())) return store;
  // Only a running plugin can delete volumes, which makes room. Reconcile finds the mounts of this boot again.
  log::Warning("the records of this node are kept in memory until the next start",
               {{"cause", Message(store.status())}});
  return TryOpen(kInMemory, boot_id);
}

absl::Status NodeStore::Put(const VolumeUse& use) {
  return database_->Run("write", [&](Statements& statements) { Written(statements, kPut, use); });
}

absl::Status NodeStore::Delete(const std::string& path) {
  return database_->Run("write",
                        [&](Statements& statements) { statements("DELETE FROM uses WHERE path = ?", path).Exec(); });
}

void NodeStore::PutDone(const VolumeUse& use) {
  log::WarningIfFailed(Put(use), "a use is not recorded as done", {{"volume", use.volume_id}, {"path", use.path}});
}

absl::Status NodeStore::MountOnRecord(VolumeUse use, const std::function<absl::Status()>& mount) {
  MOORING_ASSIGN_OR_RETURN(const std::optional<VolumeUse> before, Get(use.path));
  MOORING_RETURN_IF_ERROR(Put(use));
  if (const absl::Status mounted = mount(); !mounted.ok()) {
    // Where an earlier call was cut short, the mount may be that call's.
    const bool was_cut_short = before && !before->done && absl::IsFailedPrecondition(mounted);
    if (!MayHaveMounted(mounted)) (was_cut_short ? Put(*before) : Delete(use.path)).IgnoreError();
    return Unexpected(mounted);
  }
  use.done = true;
  PutDone(use);
  return absl::OkStatus();
}

absl::StatusOr<bool> NodeStore::RecordAndMount(const VolumeUse& use,
                                               const std::function<absl::StatusOr<bool>()>& mount) {
  MOORING_ASSIGN_OR_RETURN(const bool is_new, database_->Run("write", [&](Statements& statements) {
    return Written(statements, kPutNew, use) == 1;
  }));
  if (!is_new) return false;
  const absl::StatusOr<bool> mounted = mount();
  if (mounted.ok() && *mounted) return true;
  if (!MayHaveMounted(mounted.status())) Delete(use.path).IgnoreError();
  return mounted.ok() ? mounted : Unexpected(mounted.status());
}

absl::Status NodeStore::DeleteEnded(const std::string& path) {
  const absl::Status removed = Delete(path);
  if (!absl::IsResourceExhausted(removed)) return removed;
  log::Warning("the record of an unmounted use stays until the next start",
               {{"path", path}, {"cause", Message(removed)}});
  return absl::OkStatus();
}

absl::StatusOr<std::optional<VolumeUse>> NodeStore::Get(const std::string& path) {
  return database_->Run("read", [&](Statements& statements) {
    Use row = statements("SELECT * FROM uses WHERE path = ?", path);
    return row.Step() ? std::optional<VolumeUse>(UseIn(row)) : std::nullopt;
  });
}

absl::StatusOr<std::vector<VolumeUse>> NodeStore::OfVolume(const std::string& volume_id) {
  return database_->Run("read", [&](Statements& statements) {
    return UsesIn(statements("SELECT * FROM uses WHERE volume_id = ? ORDER BY path", volume_id));
  });
}

absl::StatusOr<std::vector<VolumeUse>> NodeStore::All() {
  return database_->Run("read",
                        [](Statements& statements) { return UsesIn(statements("SELECT * FROM uses ORDER BY path")); });
}

absl::StatusOr<std::vector<UseCount>> NodeStore::CountUses() { return database_->Count(); }

}  // namespace mooring
