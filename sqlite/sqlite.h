// The layer over SQLite that all databases of Mooring share. It creates files, opens connections, checks the schema
// version, binds prepared statements, and converts errors of SQLite to absl::Status.
#pragma once

#include <SQLiteCpp/SQLiteCpp.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mooring {

inline constexpr char kInMemory[] = ":memory:";                 // the path of a database without a file
inline constexpr std::chrono::milliseconds kBusyTimeout{5000};  // other processes write for microseconds

// A database, as its errors name it.
struct DatabaseFile {
  std::string path;
  std::string name;        // "the volume catalog"
  std::string if_damaged;  // a sentence: what the administrator does with a damaged file
  std::string if_other;    // an imperative phrase: what to do with a file of another schema version
  absl::StatusCode if_busy = absl::StatusCode::kAborted;  // for a file that another process holds
};

// "<action> the volume catalog '<path>': <SQLite's message> (<the kernel's>)", and what to do. RESOURCE_EXHAUSTED: the
// disk is full, or the file may not grow. UNAVAILABLE: no descriptor, memory or lock is left. ABORTED: another call was
// quicker. `if_busy`: another process holds the file. After another error of the kernel, the code that ErrnoStatus
// gives it. Otherwise INTERNAL. `system_error`: LastSystemError().
absl::Status DatabaseError(const SQLite::Exception& error, std::string_view action, const DatabaseFile& file,
                           int system_error = 0);

// Creates the file (0600) if it is missing.
absl::Status MakePrivateFile(const DatabaseFile& file);

// Whether a commit waits for the disk. kOff: a power cut may lose or damage the database.
enum class Sync { kOff, kFull };

// The file must exist, and may not be a symbolic link. Both throw SQLite::Exception.
SQLite::Database OpenWriter(const std::string& path, Sync sync);
SQLite::Database OpenReader(const std::string& path);

// Opens a database on a filesystem that several hosts mount, for reading and writing. It has a rollback journal,
// because a WAL needs memory that all its processes share. A commit is on disk when it returns, with the end of its
// journal. The file of the journal stays (KeepRoom). The filesystem needs locks that work between the hosts.
SQLite::Database OpenShared(const std::string& path);

// Gives such a database, which has its tables, room in the file and in its journal. So rows can be written and deleted
// on a full disk, unless that never writes in place. Does nothing if the journal has room. Throws SQLite::Exception.
void KeepRoom(SQLite::Database& database, const std::string& path);

// Creates the tables of an empty database; `may_begin` is asked before. It does not write to a database that has its
// tables, because the disk may be full. FAILED_PRECONDITION: another schema version. Throws SQLite::Exception.
absl::Status PrepareSchema(SQLite::Database& database, const DatabaseFile& file, int version, const char* tables,
                           const std::function<absl::Status()>& may_begin = {});

// The disk was full. SQLite has no primary code for a -shm file that finds no room.
bool IsDiskFull(const SQLite::Exception& error);

// A prepared statement in use. The destructor resets it: a statement that is left half read keeps its snapshot open.
class Use {
 public:
  template <typename... Values>
  explicit Use(SQLite::Statement& statement, const Values&... values) : statement_(statement) {
    int index = 0;
    (statement_.bind(++index, values), ...);
  }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;
  ~Use() { statement_.tryReset(); }

  bool Step() { return statement_.executeStep(); }
  int Exec() { return statement_.exec(); }  // the number of changed rows
  std::string Text(int column) { return statement_.getColumn(column).getString(); }
  std::int64_t Number(int column) { return statement_.getColumn(column).getInt64(); }
  bool IsNull(int column) { return statement_.getColumn(column).isNull(); }

 private:
  SQLite::Statement& statement_;
};

// The statements of a connection. Each SQL text is prepared once, at its first use, and kept: texts are constants. At
// most one Use of a text at a time, because they share the statement. It has no lock: SharedConnection has.
class Statements {
 public:
  explicit Statements(SQLite::Database& database) : database_(database) {}
  // statements("DELETE FROM volumes WHERE id = ?", id).Exec(). Throws SQLite::Exception.
  template <typename... Values>
  Use operator()(std::string_view sql, const Values&... values) {
    return Use(Prepared(sql), values...);
  }
  SQLite::Database& database() { return database_; }  // for transactions
  void Forget() { prepared_.clear(); }                // before the database is closed

 private:
  SQLite::Statement& Prepared(std::string_view sql);

  SQLite::Database& database_;
  std::map<std::string, SQLite::Statement, std::less<>> prepared_;
};

// The result of Guarded for an action that returns Value.
template <typename Value>
struct GuardedResult {
  using Type = absl::StatusOr<Value>;
};
template <>
struct GuardedResult<void> {
  using Type = absl::Status;
};
template <>
struct GuardedResult<absl::Status> {
  using Type = absl::Status;
};
template <typename Value>
struct GuardedResult<absl::StatusOr<Value>> {
  using Type = absl::StatusOr<Value>;
};

// The errno of the last system call of SQLite that failed in this thread since ForgetSystemError; 0: none is known.
// SQLite does not tell it. It tries an open that failed again, without O_CREAT, so errno itself may say ENOENT on a
// full disk.
void ForgetSystemError();
int LastSystemError();

// Runs `action`, and returns its result or the SQLite::Exception that it throws as DatabaseError.
template <typename Action>
typename GuardedResult<std::invoke_result_t<Action>>::Type Guarded(std::string_view what, const DatabaseFile& file,
                                                                   Action action) {
  ForgetSystemError();
  try {
    if constexpr (std::is_void_v<std::invoke_result_t<Action>>) {
      action();
      return absl::OkStatus();
    } else {
      return action();
    }
  } catch (const SQLite::Exception& error) {
    return DatabaseError(error, what, file, LastSystemError());
  }
}

// A connection that several threads share.
class SharedConnection {
 public:
  explicit SharedConnection(SQLite::Database database) : database_(std::move(database)) {}
  void Replace(SQLite::Database database) {
    const std::lock_guard<std::mutex> lock(mutex_);
    statements_.Forget();
    database_ = std::move(database);
  }
  // Calls `action` with the statements, under the lock of the connection. Errors: Guarded.
  template <typename Action>
  auto Run(std::string_view what, const DatabaseFile& file, Action action) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return Guarded(what, file, [&] { return action(statements_); });
  }

 private:
  std::mutex mutex_;
  SQLite::Database database_;
  Statements statements_{database_};
};

// Repeats `open` while it is ABORTED, for kBusyTimeout at most. SQLite ignores the busy timeout where two processes
// change a new file to WAL at the same moment.
template <typename Open>
auto RepeatWhileBusy(Open open) -> decltype(open()) {
  const auto deadline = std::chrono::steady_clock::now() + kBusyTimeout;
  while (true) {
    auto store = open();
    if (!absl::IsAborted(store.status()) || std::chrono::steady_clock::now() >= deadline) return store;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

}  // namespace mooring
