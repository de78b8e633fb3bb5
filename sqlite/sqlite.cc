#include "sqlite/sqlite.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

#include "base/file/unique_fd.h"
#include "base/status.h"
#include "base/text/clean_text.h"
#include "base/text/quote.h"

namespace mooring {
namespace {

constexpr int kPrimary = 0xFF;  // of an extended error code
constexpr int kBusyMilliseconds = static_cast<int>(kBusyTimeout.count());

// The last connection leaves -wal (emptied) and -shm in place. Without the 32 KiB of -shm nobody can open the database,
// not even to read it, and a full disk has no other 32 KiB.
void UseWal(SQLite::Database& database) {
  database.exec("PRAGMA journal_mode=WAL");
  int keep = 1;
  ::sqlite3_file_control(database.getHandle(), "main", SQLITE_FCNTL_PERSIST_WAL, &keep);
  // SQLite would apply a log with content to a copy of the database that is put back beside it.
  database.exec("PRAGMA journal_size_limit=0");
}

thread_local int error_of_creation = 0;

int OpenForSqlite(const char* path, int flags, int mode) {
  const int fd = ::open(path, flags, mode);
  if ((flags & O_CREAT) != 0) error_of_creation = fd < 0 ? errno : 0;
  return fd;
}

void WatchOpens() {
  static const bool watched = [] {
    sqlite3_vfs* const files = ::sqlite3_vfs_find(nullptr);
    const auto open = reinterpret_cast<sqlite3_syscall_ptr>(&OpenForSqlite);
    return files != nullptr && files->iVersion >= 3 && files->xSetSystemCall(files, "open", open) == SQLITE_OK;
  }();
  static_cast<void>(watched);
}

// After the call that made it give up, SQLite still looks for files that need not be there. So only an errno that tells
// of the filesystem or of a limit counts. A damaged file is told as such, unless the disk did not give a page.
int CauseOf(const SQLite::Exception& error, int system_error) {
  constexpr std::array kBelieved = {ENOSPC, EDQUOT, EIO,   EFBIG,  ENOMEM, EMFILE, ENFILE,
                                    EACCES, EPERM,  EROFS, ESTALE, ENOLCK, EBUSY};
  constexpr std::array kOfTheKernel = {SQLITE_IOERR,    SQLITE_CANTOPEN, SQLITE_FULL,
                                       SQLITE_READONLY, SQLITE_PROTOCOL, SQLITE_CORRUPT};
  const auto has = [](const auto& list, int value) { return std::find(list.begin(), list.end(), value) != list.end(); };
  const int code = error.getErrorCode() & kPrimary;
  if (code == SQLITE_CORRUPT && system_error != EIO) return 0;
  return has(kOfTheKernel, code) && has(kBelieved, system_error) ? system_error : 0;
}

}  // namespace

// It only creates: opening and closing a database that this process has open elsewhere would drop its POSIX locks
// (sqlite.org/howtocorrupt.html). SQLite gives the WAL beside it the same mode.
absl::Status MakePrivateFile(const DatabaseFile& file) {
  if (file.path == kInMemory) return absl::OkStatus();
  const UniqueFd made(::open(file.path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (made.ok() || errno == EEXIST) return absl::OkStatus();
  return ErrnoStatus(errno, fmt::format("create {}", file.name), file.path);
}

SQLite::Database OpenWriter(const std::string& path, Sync sync) {
  SQLite::Database database(path, SQLite::OPEN_READWRITE | SQLite::OPEN_NOFOLLOW, kBusyMilliseconds);
  UseWal(database);
  database.exec(sync == Sync::kFull ? "PRAGMA synchronous=FULL" : "PRAGMA synchronous=OFF");
  database.exec("PRAGMA foreign_keys=ON");
  return database;
}

SQLite::Database OpenReader(const std::string& path) {
  return {path, SQLite::OPEN_READONLY | SQLite::OPEN_NOFOLLOW, kBusyMilliseconds};
}

SQLite::Database OpenShared(const std::string& path) {
  SQLite::Database database(path, SQLite::OPEN_READWRITE | SQLite::OPEN_NOFOLLOW, kBusyMilliseconds);
  database.exec("PRAGMA journal_mode=PERSIST");
  database.exec("PRAGMA synchronous=EXTRA");
  database.exec("PRAGMA foreign_keys=ON");
  return database;
}

// Pages that are new have no copy in the journal, so they are written twice. Other hosts may do the same.
void KeepRoom(SQLite::Database& database, const std::string& path) {
  constexpr off_t kRoom = 262144;
  struct stat journal = {};
  if (::stat((path + "-journal").c_str(), &journal) == 0 && journal.st_size >= kRoom) return;
  database.exec("PRAGMA temp_store=MEMORY");  // the plugin may not write where SQLite puts files for one statement
  for (const char* const change : {"INSERT INTO room VALUES (randomblob(262144))",
                                   "UPDATE room SET bytes = randomblob(262144); DROP TABLE room"}) {
    SQLite::Transaction transaction(database, SQLite::TransactionBehavior::IMMEDIATE);
    database.exec("CREATE TABLE IF NOT EXISTS room (bytes BLOB)");
    database.exec(change);
    transaction.commit();
  }
}

absl::Status PrepareSchema(SQLite::Database& database, const DatabaseFile& file, int version, const char* tables,
                           const std::function<absl::Status()>& may_begin) {
  SQLite::Transaction transaction(database, SQLite::TransactionBehavior::IMMEDIATE);
  const int found = database.execAndGet("PRAGMA user_version").getInt();
  if (found == version) return absl::OkStatus();
  if (found != 0) {
    return FailedPrecondition("{} {} has schema version {}, and this program reads version {}: {}", file.name,
                              Quote(file.path), found, version, file.if_other);
  }
  if (may_begin) MOORING_RETURN_IF_ERROR(may_begin());
  database.exec(tables);
  database.exec(fmt::format("PRAGMA user_version={}", version));
  transaction.commit();
  return absl::OkStatus();
}

SQLite::Statement& Statements::Prepared(std::string_view sql) {
  const auto found = prepared_.find(sql);
  if (found != prepared_.end()) return found->second;
  std::string text(sql);
  SQLite::Statement statement(database_, text);
  return prepared_.emplace(std::move(text), std::move(statement)).first->second;
}

void ForgetSystemError() {
  WatchOpens();
  error_of_creation = 0;
  errno = 0;
}

int LastSystemError() { return error_of_creation != 0 ? error_of_creation : errno; }

bool IsDiskFull(const SQLite::Exception& error) {
  return (error.getErrorCode() & kPrimary) == SQLITE_FULL || error.getExtendedErrorCode() == SQLITE_IOERR_SHMSIZE;
}

absl::Status DatabaseError(const SQLite::Exception& error, std::string_view action, const DatabaseFile& file,
                           int system_error) {
  // SQLite quotes names in a damaged file, which may be any bytes.
  std::string text = fmt::format("{} {} {}: {}", action, file.name, Quote(file.path), CleanText(error.what()));
  const int cause = CauseOf(error, system_error);
  if (cause != 0) text += fmt::format(" ({})", std::generic_category().message(cause));
  const bool full = IsDiskFull(error) || cause == ENOSPC || cause == EDQUOT;
  if (full) return ResourceExhausted(text + ": make room on that filesystem");
  // RESOURCE_EXHAUSTED would tell callers that only a deletion helps.
  if (cause == EMFILE || cause == ENFILE || cause == ENOMEM || cause == ENOLCK) return Unavailable(text);
  if (cause == EFBIG) return ResourceExhausted(text + ": the limit of file sizes (ulimit -f) is reached");
  if (error.getExtendedErrorCode() == SQLITE_IOERR_NOMEM) return ResourceExhausted(text);
  switch (error.getErrorCode() & kPrimary) {
    case SQLITE_NOMEM:
      return ResourceExhausted(text);
    case SQLITE_READONLY:
      return FailedPrecondition(text + ": make it, its directory and their filesystem writable");
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return absl::Status(file.if_busy, text + ": another process holds it, call again later");
    case SQLITE_CONSTRAINT:
      return Aborted(text + ": another call changed it meanwhile, call again");
    case SQLITE_CORRUPT:
      // SQLite says this of a page that the disk does not give.
      if (cause == EIO) return Internal(text + ": the disk cannot be read, see the kernel's log");
      [[fallthrough]];
    case SQLITE_NOTADB:
      return Internal(text + ": the file is damaged. " + file.if_damaged);
    default:
      return cause == 0 ? Internal(text) : WithCode(ErrnoStatus(cause, action).code(), Internal(text));
  }
}

}  // namespace mooring
