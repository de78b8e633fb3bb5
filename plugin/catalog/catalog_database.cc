#include "plugin/catalog/catalog_database.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include "base/status.h"
#include "base/text/quote.h"
#include "sqlite/sqlite.h"

namespace mooring {
namespace {

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

CatalogDatabase::Connection& CatalogDatabase::counter() {
  const std::lock_guard<std::mutex> lock(counter_mutex_);
  if (counter_ == nullptr) counter_ = std::make_unique<Connection>(path_, SQLite::OPEN_READONLY);
  return *counter_;
}

absl::StatusOr<std::shared_ptr<CatalogDatabase>> CatalogDatabase::Open(const std::string& path) {
  MOORING_RETURN_IF_ERROR(MakePrivateFile(path, "the volume catalog"));
  return Guarded("open", path, [&] { return std::make_shared<CatalogDatabase>(path); });
}

std::vector<PoolCount> CountsIn(CatalogDatabase::Connection& connection, const std::string& select) {
  const std::lock_guard<std::mutex> lock(connection.mutex);
  SQLite::Statement statement(connection.database, select);
  std::vector<PoolCount> counts;
  for (Use row(statement); row.Step();) {
    counts.push_back({.pool = row.Text(0),
                      .state = ParseState(row.Text(1)),
                      .count = static_cast<std::uint64_t>(row.Number(2)),
                      .bytes = static_cast<std::uint64_t>(row.Number(3))});
  }
  return counts;
}

std::vector<UnfinishedRecord> UnfinishedIn(CatalogDatabase::Connection& connection, const std::string& select) {
  const std::lock_guard<std::mutex> lock(connection.mutex);
  SQLite::Statement statement(connection.database, select);
  std::vector<UnfinishedRecord> records;
  for (Use row(statement); row.Step();) records.push_back({.id = row.Text(0), .pool = row.Text(1)});
  return records;
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
          ": the file is damaged. Stop the plugin and put a copy of it back (docs/backup.md), or move it away, and the "
          "volumes with it, to start with an empty catalog");
    default:
      return Internal(text);
  }
}

}  // namespace mooring
