// The catalog's file, its tables, and the connections that its stores share (catalog_store.h, snapshot_store.h). Reads
// and writes have a connection each, so that no read waits for the fsync of another call. Only their .cc files use it.
#ifndef MOORING_PLUGIN_CATALOG_STORE_CATALOG_DATABASE_H_
#define MOORING_PLUGIN_CATALOG_STORE_CATALOG_DATABASE_H_

#include <SQLiteCpp/SQLiteCpp.h>

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "plugin/catalog/store/catalog_store.h"
#include "sqlite/sqlite.h"

namespace mooring {

class CatalogDatabase {
 public:
  // The mutex is held while the connection, or a statement on it, is used.
  struct Connection {
    explicit Connection(SQLite::Database opened) : database(std::move(opened)) {}
    std::mutex mutex;
    SQLite::Database database;
  };

  // Creates the file (0600) and its tables if they are missing, after asking `may_begin`. ABORTED: another process is
  // creating them. FAILED_PRECONDITION: the file has another schema version.
  static absl::StatusOr<std::shared_ptr<CatalogDatabase>> Open(const std::string& path,
                                                               const std::function<absl::Status()>& may_begin);
  explicit CatalogDatabase(DatabaseFile file, SQLite::Database writer);  // throws SQLite::Exception

  Connection& writer() { return writer_; }
  Connection& reader() { return reader_; }
  Connection& counter();  // reads whole tables, which no other read waits for; throws SQLite::Exception
  const DatabaseFile& file() const { return file_; }

 private:
  const DatabaseFile file_;
  Connection writer_;
  Connection reader_;  // is closed first: the last connection to close tidies the WAL up
  std::mutex counter_mutex_;
  std::unique_ptr<Connection> counter_;  // is opened by the first call
};

// `select` returns rows of pool, state, number, bytes. Throws SQLite::Exception.
std::vector<PoolCount> CountsIn(CatalogDatabase::Connection& connection, const std::string& select);

// `select` returns rows of id, pool. Throws SQLite::Exception.
std::vector<UnfinishedRecord> UnfinishedIn(CatalogDatabase::Connection& connection, const std::string& select);

}  // namespace mooring

#endif  // MOORING_PLUGIN_CATALOG_STORE_CATALOG_DATABASE_H_
