#include "plugin/catalog/store/shared_nodes.h"

#include "plugin/catalog/store/catalog_files.h"

namespace mooring {

namespace {

constexpr std::string_view kFindNode = "look up a node in";

std::optional<SharedNodes::Node> NodeIn(Statements& statements, const std::string& id) {
  Use row = statements("SELECT id, max_volumes, boot_id FROM nodes WHERE id = ?", id);
  if (!row.Step()) return std::nullopt;
  return SharedNodes::Node{.id = row.Text(0), .max_volumes = row.Number(1), .boot_id = row.Text(2)};
}

}  // namespace

absl::Status SharedNodes::Put(CatalogDatabase& file, const Node& node) {
  return file.Write("add this node to", [&](Statements& statements) {
    statements("INSERT OR REPLACE INTO nodes VALUES (?, ?, ?)", node.id, node.max_volumes, node.boot_id).Exec();
  });
}

absl::StatusOr<std::optional<SharedNodes::Node>> SharedNodes::Find(const std::string& volume_id,
                                                                   const std::string& node_id) {
  return files_->Read(volume_id, kFindNode, [&](Statements& statements) { return NodeIn(statements, node_id); });
}

absl::StatusOr<std::optional<SharedNodes::Node>> SharedNodes::Get(CatalogDatabase& file, const std::string& node_id) {
  return file.Read(kFindNode, [&](Statements& statements) { return NodeIn(statements, node_id); });
}

}  // namespace mooring
