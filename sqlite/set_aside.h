// Databases that hold nothing which cannot be found again: a damaged one is put out of the way.
#ifndef MOORING_SQLITE_SET_ASIDE_H_
#define MOORING_SQLITE_SET_ASIDE_H_

#include <SQLiteCpp/SQLiteCpp.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mooring {

// The file is no database, has a page that cannot be read, or lacks a table.
bool IsDamaged(const SQLite::Exception& error);

// Throws SQLite::Exception, of which IsDamaged, where a page cannot be read. Reads the whole file.
void CheckPages(SQLite::Database& database);

// Renames the database to "<path>.damaged-20261122T214500.123Z", with its -wal and -shm, and keeps the newest few such
// files. No connection to it may be open in this process. The new name.
absl::StatusOr<std::string> SetAside(const std::string& path);

}  // namespace mooring

#endif  // MOORING_SQLITE_SET_ASIDE_H_
