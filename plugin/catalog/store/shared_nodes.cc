#include "plugin/catalog/store/shared_nodes.h"

#include "plugin/catalog/store/catalog_files.h"

namespace mooring {

absl::Status SharedNodes::Put(const std::string& pool, const Node& node) {
  return files_->OfPool(pool).Write("add this node to", [&](Statements& statements) {
    statements("INSERT OR REPLACE INTO nodes VALUES (?, ?)", node.id, node.max_volumes).Exec();
  });
}

absl::StatusOr<std::optional<SharedNodes::Node>> SharedNodes::Find(const std::string& volume_id,
                                                                   const std::string& node_id) {
  return files_->Read(volume_id, "look up a node in", [&](Statements& statements) {
    Use row = statements("SELECT id, max_volumes FROM nodes WHERE id = ?", node_id);
    return row.Step() ? std::optional<Node>({.id = row.Text(0), .max_volumes = row.Number(1)}) : std::nullopt;
  });
}

}  // namespace mooring
