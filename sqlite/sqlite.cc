#include "sqlite/sqlite.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>

#include <cerrno>

#include "base/file/unique_fd.h"
#include "base/status.h"

namespace mooring {

// Only ever creates: opening and closing a database that this process has open elsewhere would drop its POSIX locks
// (sqlite.org/howtocorrupt.html). SQLite gives the WAL beside it the same mode.
absl::Status MakePrivateFile(const std::string& path, std::string_view what) {
  const UniqueFd made(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (made.ok() || errno == EEXIST) return absl::OkStatus();
  return ErrnoStatus(errno, fmt::format("create {}", what), path);
}

void UseWal(SQLite::Database& database) {
  database.exec("PRAGMA journal_mode=WAL");
  int keep = 1;
  ::sqlite3_file_control(database.getHandle(), "main", SQLITE_FCNTL_PERSIST_WAL, &keep);
  // A log with content beside a database that has been restored from a copy would be taken for that one's own.
  database.exec("PRAGMA journal_size_limit=0");
}

bool IsDiskFull(const SQLite::Exception& error) {
  constexpr int kPrimary = 0xFF;
  return (error.getErrorCode() & kPrimary) == SQLITE_FULL || error.getExtendedErrorCode() == SQLITE_IOERR_SHMSIZE;
}

}  // namespace mooring
