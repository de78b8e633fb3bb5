#include "plugin/catalog_database.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>

#include <cerrno>

#include "base/quote.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "plugin/sqlite.h"

namespace mooring {
namespace {

// Only ever creates: opening and closing a database that this process has open elsewhere would drop its POSIX locks
// (sqlite.org/howtocorrupt.html). SQLite gives the WAL beside it the same mode.
absl::Status MakePrivateFile(const std::string& path) {
  const UniqueFd made(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (made.ok() || errno == EEXIST) return absl::OkStatus();
  return ErrnoStatus(errno, "create the volume catalog", path);
}

SQLite::Database OpenConnection(const std::string& path, int flags) {
  SQLite::Database database(path, flags | SQLite::OPEN_NOFOLLOW, static_cast<int>(kBusyTimeout.count()));
  if ((flags & SQLite::OPEN_READONLY) != 0) return database;
  UseWal(database);
  database.exec("PRAGMA synchronous=FULL");
  database.exec("PRAGMA foreign_keys=ON");
  return database;
}

}  // namespace

CatalogDatabase::Connection::Connection(const std::string& path, int flags) : database(OpenConnection(path, flags)) {}

CatalogDatabase::CatalogDatabase(const std::string& path)
    : path_(path), writer_(path, SQLite::OPEN_READWRITE), reader_(path, SQLite::OPEN_READONLY) {}

absl::StatusOr<std::shared_ptr<CatalogDatabase>> CatalogDatabase::Open(const std::string& path) {
  MOORING_RETURN_IF_ERROR(MakePrivateFile(path));
  return Guarded("open", path, [&] { return std::make_shared<CatalogDatabase>(path); });
}

absl::Status CatalogError(const SQLite::Exception& error, std::string_view what, const std::string& path) {
  constexpr int kPrimary = 0xFF;
  const std::string text = fmt::format("{} the volume catalog {}: {}", what, Quote(path), error.what());
  if (IsDiskFull(error)) return ResourceExhausted(text + ": make room on that filesystem");
  switch (error.getErrorCode() & kPrimary) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return Aborted(text + ": another process holds it, call again later");
    case SQLITE_CONSTRAINT:
      return Aborted(text + ": another call changed it meanwhile, call again");
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return Internal(
          text +
          ": the file is damaged. Stop the plugin and put a copy of it back, or move it away to start with an "
          "empty catalog; the images of the volumes are not touched");
    default:
      return Internal(text);
  }
}

}  // namespace mooring
