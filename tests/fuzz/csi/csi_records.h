// The plugin's records of an input of `csi`: databases that the inputs use one after another. Making a database takes
// longer than all calls of an input.
#pragma once

#include <SQLiteCpp/SQLiteCpp.h>

#include <memory>
#include <string>
#include <vector>

#include "plugin/catalog/store/catalog_store.h"
#include "plugin/catalog/store/snapshot_store.h"
#include "plugin/node/uses/node_store.h"
#include "tests/support/temp_dir.h"

namespace mooring::fuzz {

class CsiRecords {
 public:
  static CsiRecords& Empty() {
    static CsiRecords records;
    records.Clear();
    return records;
  }

  CatalogStore& catalog() { return *catalog_; }
  SnapshotStore& snapshots() { return snapshots_; }
  NodeStore& node() { return *node_; }

 private:
  void Clear() {
    for (SQLite::Database* const database : {&catalog_rows_, &node_rows_}) {
      SQLite::Transaction transaction(*database);
      for (const std::string& table : TablesOf(*database)) database->exec("DELETE FROM " + table);
      transaction.commit();
    }
  }
  static std::vector<std::string> TablesOf(SQLite::Database& database) {
    std::vector<std::string> names;
    SQLite::Statement statement(database, "SELECT name FROM sqlite_master WHERE type = 'table'");
    while (statement.executeStep()) names.push_back(statement.getColumn(0).getString());
    return names;
  }

  const testing::TempDir directory_;
  const std::string catalog_path_ = directory_ / "catalog.db", node_path_ = directory_ / "node.db";
  const std::unique_ptr<CatalogStore> catalog_ = *CatalogStore::Open(catalog_path_);
  SnapshotStore snapshots_{catalog_->files()};
  const std::unique_ptr<NodeStore> node_ = *NodeStore::Open(node_path_, "boot");
  SQLite::Database catalog_rows_{catalog_path_, SQLite::OPEN_READWRITE}, node_rows_{node_path_, SQLite::OPEN_READWRITE};
};

}  // namespace mooring::fuzz
