#include "plugin/sqlite.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <sqlite3.h>

#include "mounter/propagation.h"

namespace mooring {

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

std::string PropagationText(std::optional<Propagation> propagation) {
  return propagation ? std::string(ToString(*propagation)) : "";
}

std::optional<Propagation> PropagationIn(const std::string& text) {
  const absl::StatusOr<Propagation> parsed = ParsePropagation(text);
  return parsed.ok() ? std::optional<Propagation>(*parsed) : std::nullopt;
}

}  // namespace mooring
