// The nodes that have a shared pool. The plugin of each node adds its own at its start.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mooring {

class CatalogDatabase;
class CatalogFiles;

class SharedNodes {
 public:
  struct Node {
    std::string id;
    std::int64_t max_volumes = 0;  // that may be published to it at a time; 0: no limit
    std::string boot_id = {};      // of the host at the last start of its plugin
  };

  explicit SharedNodes(std::shared_ptr<CatalogFiles> files) : files_(std::move(files)) {}

  // In the file of a shared pool.
  static absl::Status Put(CatalogDatabase& file, const Node& node);  // inserts or replaces
  static absl::StatusOr<std::optional<Node>> Get(CatalogDatabase& file, const std::string& node_id);

  // The node in the pool of a volume.
  absl::StatusOr<std::optional<Node>> Find(const std::string& volume_id, const std::string& node_id);

 private:
  const std::shared_ptr<CatalogFiles> files_;
};

}  // namespace mooring
