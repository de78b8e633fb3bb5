#include "plugin/catalog/store/shared_nodes.h"

#include "base/text/quote.h"
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

absl::StatusOr<std::vector<PublicationRecord>> SharedNodes::Uses(const std::string& volume_id) {
  return files_->Read(volume_id, "look up uses in", [&](Statements& statements) {
    constexpr std::string_view kUses =
        "SELECT node_id, access_type, capability, read_only FROM uses JOIN nodes ON nodes.id = node_id AND "
        "nodes.boot_id = uses.boot_id WHERE volume_id = ? ORDER BY node_id";
    std::vector<PublicationRecord> uses;
    for (Use row = statements(kUses, volume_id); row.Step();) {
      uses.push_back({.volume_id = volume_id,
                      .node_id = WordIn(row, 0),
                      .access_type = WordIn(row, 1),
                      .capability = WordIn(row, 2),
                      .read_only = row.Number(3) != 0});
    }
    return uses;
  });
}

absl::Status SharedNodes::PutUse(const PublicationRecord& use) {
  return files_->Write(use.volume_id, "add a use to", [&](Statements& statements) -> absl::Status {
    constexpr std::string_view kPut =
        "INSERT OR REPLACE INTO uses SELECT ?1, id, boot_id, ?3, ?4, ?5 FROM nodes WHERE id = ?2";
    const int read_only = use.read_only ? 1 : 0;
    if (statements(kPut, use.volume_id, use.node_id, use.access_type, use.capability, read_only).Exec() == 1) {
      return absl::OkStatus();
    }
    return FailedPrecondition("node {} is not known in the pool of volume {}: start its plugin again",
                              Quote(use.node_id), Quote(use.volume_id));
  });
}

absl::Status SharedNodes::DeleteUse(const std::string& volume_id, const std::string& node_id) {
  return files_->Write(volume_id, "remove a use from", [&](Statements& statements) {
    statements("DELETE FROM uses WHERE volume_id = ? AND node_id = ?", volume_id, node_id).Exec();
  });
}

absl::StatusOr<std::vector<std::string>> SharedNodes::UsedBy(const std::string& node_id, const std::string& pool) {
  MOORING_ASSIGN_OR_RETURN(CatalogDatabase* const file, files_->OfPool(pool));
  return file->Read("list the uses in", [&](Statements& statements) {
    std::vector<std::string> ids;
    for (Use row = statements("SELECT volume_id FROM uses WHERE node_id = ?", node_id); row.Step();) {
      ids.push_back(WordIn(row, 0));
    }
    return ids;
  });
}

absl::StatusOr<std::optional<SharedNodes::Node>> SharedNodes::Get(CatalogDatabase& file, const std::string& node_id) {
  return file.Read(kFindNode, [&](Statements& statements) { return NodeIn(statements, node_id); });
}

}  // namespace mooring
