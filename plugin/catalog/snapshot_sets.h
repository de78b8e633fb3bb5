// Finds, deletes and settles snapshots together with the members of their group: most calls treat a single snapshot and
// a group alike. A caller that changes a set holds its locks, or that of its name while it creates it. For a set that
// is `creating` it also holds the locks of the sources.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "mounter/mounter.h"
#include "plugin/backends/pools.h"
#include "plugin/catalog/store/snapshot_store.h"
#include "plugin/model/volume_source.h"

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
  SnapshotSets(SnapshotStore& store, VolumeSource& volumes, const Pools& pools, Contents& contents)
      : store_(store), volumes_(volumes), pools_(pools), contents_(contents) {}

  absl::StatusOr<std::optional<SnapshotSet>> Find(const std::string& id, bool is_group);
  absl::StatusOr<std::optional<SnapshotSet>> FindNamed(const std::string& name, bool is_group, std::string_view tag);
  absl::StatusOr<std::vector<SnapshotSet>> ListUnfinished();

  // Moves a ready set to `deleting`, and deletes it.
  absl::Status Delete(SnapshotSet set);

  // Deletes an unfinished set. A set in use becomes ready again. ABORTED: the mount helper of a killed plugin still
  // makes the copy, so the sources stay as they are.
  absl::Status RollBack(const SnapshotSet& set, bool may_be_frozen);

  // creating or deleting -> ready if all images exist; otherwise the set is deleted. ABORTED as RollBack. If an image
  // cannot be looked up, nothing changes.
  absl::Status Settle(const SnapshotSet& unfinished);

 private:
  absl::StatusOr<std::optional<SnapshotSet>> WithMembers(absl::StatusOr<std::optional<GroupRecord>> group);
  absl::StatusOr<bool> HasAllImages(const SnapshotSet& set) const;
  absl::Status ThawSources(const SnapshotSet& set);
  absl::Status DeleteImages(const SnapshotSet& set);

  SnapshotStore& store_;
  VolumeSource& volumes_;
  const Pools& pools_;
  Contents& contents_;
};

}  // namespace mooring
