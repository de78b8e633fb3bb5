// Damaged databases. A database whose content can be found again is renamed, and created anew.
#pragma once

#include <SQLiteCpp/SQLiteCpp.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mooring {

// Whether the file is no database, has an unreadable page, or lacks a table or column.
bool IsDamaged(const SQLite::Exception& error);

// Reads the whole file. Throws an SQLite::Exception for which IsDamaged is true if a page is unreadable.
void CheckPages(SQLite::Database& database);

// Renames the database to "<path>.damaged-20261122T214500.123Z", with its -wal and -shm, and returns the new name. It
// keeps the newest three such files. No connection to the database may be open in this process.
absl::StatusOr<std::string> SetAside(const std::string& path);

}  // namespace mooring
