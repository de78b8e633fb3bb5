// The catalog's file, and the two connections to it that its stores share (catalog_store.h, snapshot_store.h): one
// writes, one looks up, so that no look-up waits for another call's fsync. For their .cc files alone.
#ifndef MOORING_PLUGIN_CATALOG_CATALOG_DATABASE_H_
#define MOORING_PLUGIN_CATALOG_CATALOG_DATABASE_H_

#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "plugin/catalog/catalog_store.h"
#include "sqlite/sqlite.h"

namespace mooring {

class CatalogDatabase {
 public:
  // Held while the connection, or a statement on it, is used.
  struct Connection {
    Connection(const std::string& path, int flags);
    std::mutex mutex;
    SQLite::Database database;
  };

  // Makes the file (0600) where it is missing; tables are the stores' business. ABORTED: another process is in the way.
  static absl::StatusOr<std::shared_ptr<CatalogDatabase>> Open(const std::string& path);
  explicit CatalogDatabase(const std::string& path);  // throws SQLite::Exception

  Connection& writer() { return writer_; }
  Connection& reader() { return reader_; }
  Connection& counter();  // for what reads whole tables, which no look-up is to wait for; throws SQLite::Exception
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
  Connection writer_;
  Connection reader_;  // goes first: the last connection to close has to be able to tidy the WAL up
  std::mutex counter_mutex_;
  std::unique_ptr<Connection> counter_;  // from the first who counts
};

// "<what> the volume catalog '<path>': <SQLite's words>", and what to do. RESOURCE_EXHAUSTED where the disk is full,
// ABORTED where another process holds the file or was quicker, else INTERNAL.
absl::Status CatalogError(const SQLite::Exception& error, std::string_view what, const std::string& path);

// Of rows of pool, state, number, bytes. Throws SQLite::Exception.
std::vector<PoolCount> CountsIn(CatalogDatabase::Connection& connection, const std::string& select);
std::vector<UnfinishedRecord> UnfinishedIn(CatalogDatabase::Connection& connection,
                                           const std::string& select);  // id, pool

// Runs `action`, which throws SQLite::Exception and returns a value or nothing.
template <typename Action>
auto Guarded(std::string_view what, const std::string& path, Action action) {
  using Value = std::invoke_result_t<Action>;
  if constexpr (std::is_void_v<Value>) {
    try {
      action();
      return absl::OkStatus();
    } catch (const SQLite::Exception& error) {
      return CatalogError(error, what, path);
    }
  } else {
    try {
      return absl::StatusOr<Value>(action());
    } catch (const SQLite::Exception& error) {
      return absl::StatusOr<Value>(CatalogError(error, what, path));
    }
  }
}

}  // namespace mooring

#endif  // MOORING_PLUGIN_CATALOG_CATALOG_DATABASE_H_
