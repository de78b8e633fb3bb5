// Finds snapshots together with the members of their group: most calls treat a single snapshot and a group alike.
#ifndef MOORING_PLUGIN_CATALOG_SNAPSHOT_SETS_H_
#define MOORING_PLUGIN_CATALOG_SNAPSHOT_SETS_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "plugin/catalog/store/snapshot_store.h"

namespace mooring {

// A single snapshot, or a group with its members. All members have the state of their group.
struct SnapshotSet {
  std::string id;    // of the snapshot or the group
  std::string name;  // of the snapshot or the group
  bool is_group = false;
  SnapshotState state = SnapshotState::kCreating;
  std::vector<SnapshotRecord> snapshots;
};

SnapshotSet SetOf(const SnapshotRecord& snapshot);

class SnapshotSets {
 public:
  explicit SnapshotSets(SnapshotStore& store) : store_(store) {}

  absl::StatusOr<std::optional<SnapshotSet>> Find(const std::string& id, bool is_group);
  absl::StatusOr<std::optional<SnapshotSet>> FindNamed(const std::string& name, bool is_group);
  absl::StatusOr<std::vector<SnapshotSet>> ListUnfinished();

 private:
  absl::StatusOr<std::optional<SnapshotSet>> WithMembers(absl::StatusOr<std::optional<GroupRecord>> group);

  SnapshotStore& store_;
};

}  // namespace mooring

#endif  // MOORING_PLUGIN_CATALOG_SNAPSHOT_SETS_H_
