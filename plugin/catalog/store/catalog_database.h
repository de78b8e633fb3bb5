// A file of the catalog, its tables, and the connections that its stores share (catalog_store.h, snapshot_store.h). The
// local file has a WAL. The file of a shared pool (catalog_files.h) has a rollback journal, the tag and the name of the
// pool, and its nodes. Reads and writes have a connection each, so that no read of the local file waits for the fsync
// of another call. Only the .cc files of the stores use it.
#pragma once

#include <SQLiteCpp/SQLiteCpp.h>

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/text/clean_text.h"
#include "plugin/catalog/store/catalog_store.h"
#include "sqlite/sqlite.h"

namespace mooring {

// A word that an answer may contain. Bytes that are not UTF-8, in a damaged row, would make the whole answer
// unreadable.
inline std::string WordIn(Use& row, int column) { return CleanText(row.Text(column)); }

class CatalogDatabase {
 public:
  // Creates the file (0600) and its tables if they are missing, after asking `may_begin`. ABORTED: another process is
  // creating them. FAILED_PRECONDITION: the file has another schema version.
  static absl::StatusOr<std::shared_ptr<CatalogDatabase>> Open(const std::string& path,
                                                               const std::function<absl::Status()>& may_begin);
  // The same for the file of a shared pool. FAILED_PRECONDITION also: its hosts know the pool by another name.
  static absl::StatusOr<std::shared_ptr<CatalogDatabase>> OpenShared(const std::string& path, const std::string& pool,
                                                                     const std::function<absl::Status()>& may_begin);

  using OpenToRead = SQLite::Database (*)(const std::string& path);
  CatalogDatabase(DatabaseFile file, SQLite::Database writer, OpenToRead open);  // throws SQLite::Exception

  // The shared pool, and its tag. Empty: this is the local file.
  const std::string& pool() const { return pool_; }
  const std::string& tag() const { return tag_; }

  // They call `action` with the statements of a connection, under its lock. Errors: Guarded, with `what`.
  template <typename Action>
  auto Write(std::string_view what, Action action) {
    return writer_.Run(what, file_, action);
  }
  template <typename Action>
  auto Read(std::string_view what, Action action) {
    return reader_.Run(what, file_, action);
  }

  // These two read whole tables, on a connection that no other call waits for. `select` gives rows of pool, state,
  // number and bytes, or rows of id and pool.
  absl::StatusOr<std::vector<PoolCount>> Count(std::string_view what, std::string_view select);
  absl::StatusOr<std::vector<UnfinishedRecord>> NameUnfinished(std::string_view what, std::string_view select);

 private:
  template <typename Action>
  auto ReadTable(std::string_view what, Action action);

  const DatabaseFile file_;
  const OpenToRead open_;
  std::string pool_, tag_;
  SharedConnection writer_;
  SharedConnection reader_;  // is closed first: the last connection to close tidies the WAL up
  std::mutex counter_mutex_;
  std::optional<SharedConnection> counter_;  // is opened by the first call
};

}  // namespace mooring
