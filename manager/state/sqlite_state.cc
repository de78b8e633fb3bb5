#include "manager/state/sqlite_state.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <mutex>
#include <set>
#include <string_view>
#include <utility>

#include "base/file/directory.h"
#include "base/file/file_lock.h"
#include "base/file/unique_fd.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "manager/state/store_parts.h"
#include "sqlite/set_aside.h"
#include "sqlite/sqlite.h"

namespace mooring::manager {
namespace {

constexpr int kSchema = 1;

// A child that an earlier manager is starting has the lock too, for the moment between fork and exec.
constexpr std::chrono::milliseconds kLockPatience{300};

constexpr char kTables[] = R"(
  CREATE TABLE state (
    key TEXT PRIMARY KEY, value BLOB NOT NULL, created INTEGER NOT NULL, modified INTEGER NOT NULL) WITHOUT ROWID;
  CREATE TABLE revision (last INTEGER NOT NULL);
  INSERT INTO revision VALUES (0);
)";

// Sorts after every key with the prefix, because UTF-8 has no such byte.
std::string EndOf(const std::string& prefix) { return prefix + '\xFF'; }

DatabaseFile StateFile(const std::string& path) {
  return {.path = path,
          .name = "the manager's state",
          .if_damaged =
              "Stop the manager and put a copy of it back (docs/backup.md), or move it away, and the files host and id "
              "beside it, to start with an empty state and register the volumes again; no volume is touched by that",
          .if_other = "start the version of mooring-manager that wrote it",
          .if_busy = absl::StatusCode::kUnavailable};
}

KeyValue FromRow(SQLite::Statement& row) {
  return {.key = row.getColumn(0).getString(),
          .value = row.getColumn(1).getString(),
          .create_revision = row.getColumn(2).getInt64(),
          .modify_revision = row.getColumn(3).getInt64()};
}

// Reads through a connection of its own, so that no read waits for an fdatasync.
class Reader {
 public:
  explicit Reader(const std::string& path) : database_(OpenReader(path)) {}

  Listing Read(const std::vector<std::string>& keys, const std::optional<std::string>& prefix) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const SQLite::Transaction snapshot(database_);  // so that revision and values belong together
    Listing listing;
    Use revision(revision_);
    if (revision.Step()) listing.revision = revision.Number(0);
    for (const std::string& key : keys) {
      Use get(get_, key);
      if (get.Step()) listing.values.push_back(FromRow(get_));
    }
    if (!prefix) return listing;
    Use list(list_, *prefix, EndOf(*prefix));
    while (list.Step()) listing.values.push_back(FromRow(list_));
    return listing;
  }

 private:
  std::mutex mutex_;
  SQLite::Database database_;
  SQLite::Statement get_{database_, "SELECT key, value, created, modified FROM state WHERE key = ?"};
  SQLite::Statement list_{database_,
                          "SELECT key, value, created, modified FROM state WHERE key >= ? AND key < ? ORDER BY key"};
  SQLite::Statement revision_{database_, "SELECT last FROM revision"};
};

// Used under the owner's lock, which is held until the changes are in the log.
class Writer {
 public:
  explicit Writer(SQLite::Database database) : database_(std::move(database)) {
    Use last(last_);
    if (last.Step()) revision_ = last.Number(0);
  }

  std::int64_t revision() const { return revision_; }

  // Gives the changes made, which may be none. ABORTED: a compare does not hold.
  absl::StatusOr<std::vector<Change>> Commit(const Transaction& transaction) {
    SyncCommits(transaction.durability == Durability::kSynced);
    SQLite::Transaction commit(database_, SQLite::TransactionBehavior::IMMEDIATE);
    for (const Transaction::Compare& compare : transaction.compares) MOORING_RETURN_IF_ERROR(Check(compare));
    std::vector<Change> changes = Apply(transaction);
    if (changes.empty()) return changes;
    Use(set_last_, revision_ + 1).Exec();
    commit.commit();
    ++revision_;
    return changes;
  }

 private:
  // Applies to the next commits of this connection. A pragma takes effect when it is compiled, so it cannot be
  // prepared.
  void SyncCommits(bool sync) {
    if (sync == synced_) return;
    database_.exec(sync ? "PRAGMA synchronous=FULL" : "PRAGMA synchronous=NORMAL");
    synced_ = sync;
  }

  absl::Status Check(const Transaction::Compare& compare) {
    Use modified(modified_, compare.key);
    return CheckRevision(compare, modified.Step() ? modified.Number(0) : 0);
  }

  std::vector<Change> Apply(const Transaction& transaction) {
    std::vector<Change> changes;
    for (const std::string& key : transaction.deletes) {
      Use use(delete_, key);
      if (!use.Step()) continue;
      KeyValue gone = FromRow(delete_);
      use.Step();  // only the step after the last row finishes the statement
      gone.modify_revision = revision_ + 1;
      changes.push_back({.kind = Change::Kind::kDelete, .value = std::move(gone)});
    }
    for (const Transaction::Put& put : transaction.puts) {
      changes.push_back({.kind = Change::Kind::kPut, .value = PutOne(put)});
    }
    return changes;
  }

  KeyValue PutOne(const Transaction::Put& put) {
    const std::int64_t revision = revision_ + 1;
    Use use(put_, put.key);
    put_.bindNoCopy(2, put.value.data(), static_cast<int>(put.value.size()));
    put_.bind(3, revision);
    use.Step();  // to the returned row
    const std::int64_t created = use.Number(0);
    use.Step();  // only the step after the last row finishes the statement
    return {.key = put.key, .value = put.value, .create_revision = created, .modify_revision = revision};
  }

  SQLite::Database database_;
  std::int64_t revision_ = 0;
  bool synced_ = true;
  SQLite::Statement last_{database_, "SELECT last FROM revision"};
  SQLite::Statement set_last_{database_, "UPDATE revision SET last = ?"};
  SQLite::Statement modified_{database_, "SELECT modified FROM state WHERE key = ?"};
  SQLite::Statement delete_{database_, "DELETE FROM state WHERE key = ? RETURNING key, value, created, modified"};
  SQLite::Statement put_{database_,
                         "INSERT INTO state (key, value, created, modified) VALUES (?1, ?2, ?3, ?3) ON CONFLICT (key) "
                         "DO UPDATE SET value = excluded.value, modified = excluded.modified RETURNING created"};
};

class SqliteState final : public State {
 public:
  SqliteState(const std::string& path, UniqueFd lock, SQLite::Database writer)
      : file_(StateFile(path)), lock_(std::move(lock)), writer_(std::move(writer)), reader_(path) {}
  ~SqliteState() override { log_->Close(); }

  Lease& lease() override { return lease_; }

  absl::StatusOr<Listing> Read(const std::vector<std::string>& keys, const std::optional<std::string>& prefix,
                               Freshness) override {
    return Guarded("read", file_, [&] { return reader_.Read(keys, prefix); });
  }

  absl::StatusOr<std::int64_t> DoCommit(const Transaction& transaction) override {
    MOORING_RETURN_IF_ERROR(CheckKeys(transaction));
    const std::lock_guard<std::mutex> lock(commit_mutex_);
    MOORING_ASSIGN_OR_RETURN(std::vector<Change> changes,
                             Guarded("write", file_, [&] { return writer_.Commit(transaction); }));
    if (!changes.empty()) log_->Append(std::move(changes));
    return writer_.revision();
  }

  absl::StatusOr<std::unique_ptr<Watch>> StartWatch(const std::string& prefix, std::int64_t from) override {
    return log_->StartWatch(prefix, from);
  }

  void EndWatches() override { log_->Close(); }

 private:
  const DatabaseFile file_;
  const UniqueFd lock_;
  EndlessLease lease_;
  std::mutex commit_mutex_;
  Writer writer_;
  Reader reader_;  // destroyed before the writer: only a writer can remove the log when it closes last
  const std::shared_ptr<ChangeLog> log_ = std::make_shared<ChangeLog>(writer_.revision());
};

absl::StatusOr<UniqueFd> LockBeside(const std::string& path) {
  const std::string beside = path + ".lock";
  UniqueFd lock(::open(beside.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!lock.ok()) return ErrnoStatus(errno, "open the lock of the manager's state", beside);
  const absl::Status locked = LockFile(lock, beside, kLockPatience);
  if (absl::IsAborted(locked)) {
    return FailedPrecondition("another manager has the state {} open: stop it first", Quote(path));
  }
  MOORING_RETURN_IF_ERROR(locked);
  return lock;
}

}  // namespace

absl::StatusOr<std::unique_ptr<State>> OpenSqliteState(const std::string& path, const MayBegin& may_begin) {
  MOORING_ASSIGN_OR_RETURN(UniqueFd lock, LockBeside(path));
  // Checked before the file is made, so that a refused start leaves nothing behind.
  if (may_begin && ::access(path.c_str(), F_OK) != 0) MOORING_RETURN_IF_ERROR(may_begin());
  const DatabaseFile file = StateFile(path);
  MOORING_RETURN_IF_ERROR(MakePrivateFile(file));
  return Guarded("open", file, [&]() -> absl::StatusOr<std::unique_ptr<State>> {
    SQLite::Database writer = OpenWriter(path, Sync::kFull);
    MOORING_RETURN_IF_ERROR(PrepareSchema(writer, file, kSchema, kTables, may_begin));
    CheckPages(writer);  // a damaged record is found now, and not when its volume is to be unmounted
    MOORING_RETURN_IF_ERROR(SyncDirectoryOf(path));  // the name of a new file is durable only with its directory
    return std::make_unique<SqliteState>(path, std::move(lock), std::move(writer));
  });
}

}  // namespace mooring::manager
