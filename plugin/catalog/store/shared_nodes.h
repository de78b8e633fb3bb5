// The nodes that have a shared pool, and the volumes that each of them uses. The plugin of a node adds its own at its
// start.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "plugin/catalog/store/catalog_store.h"

namespace mooring {

class CatalogDatabase;

class SharedNodes {
 public:
  struct Node {
    std::string id;
    std::int64_t max_volumes = 0;  // that may be published to it at a time; 0: no limit
    std::string boot_id = {};      // of the host at the last start of its plugin

    bool operator==(const Node&) const = default;
  };

  explicit SharedNodes(std::shared_ptr<CatalogFiles> files) : files_(std::move(files)) {}

  // In the file of a shared pool.
  static absl::Status Put(CatalogDatabase& file, const Node& node);  // inserts or replaces
  static absl::StatusOr<std::optional<Node>> Get(CatalogDatabase& file, const std::string& node_id);

  // The node in the pool of a volume.
  absl::StatusOr<std::optional<Node>> Find(const std::string& volume_id, const std::string& node_id);

  // The uses of a volume by nodes, of BackendTraits::many_nodes. A use ends with its host's boot, or if its node is
  // taken from the table of nodes. FAILED_PRECONDITION: the node of a new use is not known.
  absl::StatusOr<std::vector<PublicationRecord>> Uses(const std::string& volume_id);
  absl::Status PutUse(const PublicationRecord& use);  // inserts or replaces
  absl::Status DeleteUse(const std::string& volume_id, const std::string& node_id);
  absl::StatusOr<std::vector<std::string>> UsedBy(const std::string& node_id, const std::string& pool);

 private:
  const std::shared_ptr<CatalogFiles> files_;
};

}  // namespace mooring
