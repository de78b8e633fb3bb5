#include "plugin/catalog/snapshot_sets.h"

#include <utility>

#include "base/status.h"

namespace mooring {
namespace {

absl::StatusOr<std::optional<SnapshotSet>> Alone(const absl::StatusOr<std::optional<SnapshotRecord>>& snapshot) {
  if (!snapshot.ok()) return snapshot.status();
  return *snapshot ? std::optional<SnapshotSet>(SetOf(**snapshot)) : std::nullopt;
}

}  // namespace

SnapshotSet SetOf(const SnapshotRecord& snapshot) {
  return {
      .id = snapshot.id, .name = snapshot.name, .is_group = false, .state = snapshot.state, .snapshots = {snapshot}};
}

// A group without members was deleted after it was read.
absl::StatusOr<std::optional<SnapshotSet>> SnapshotSets::WithMembers(absl::StatusOr<std::optional<GroupRecord>> group) {
  if (!group.ok()) return group.status();
  if (!*group) return std::optional<SnapshotSet>();
  MOORING_ASSIGN_OR_RETURN(std::vector<SnapshotRecord> members, store_.Members((*group)->id));
  if (members.empty()) return std::optional<SnapshotSet>();
  return SnapshotSet{.id = std::move((*group)->id),
                     .name = std::move((*group)->name),
                     .is_group = true,
                     .state = (*group)->state,
                     .snapshots = std::move(members)};
}

absl::StatusOr<std::optional<SnapshotSet>> SnapshotSets::Find(const std::string& id, bool is_group) {
  return is_group ? WithMembers(store_.FindGroupById(id)) : Alone(store_.FindById(id));
}

absl::StatusOr<std::optional<SnapshotSet>> SnapshotSets::FindNamed(const std::string& name, bool is_group) {
  return is_group ? WithMembers(store_.FindGroupByName(name)) : Alone(store_.FindByName(name));
}

absl::StatusOr<std::vector<SnapshotSet>> SnapshotSets::ListUnfinished() {
  std::vector<SnapshotSet> sets;
  MOORING_ASSIGN_OR_RETURN(const std::vector<SnapshotRecord> snapshots, store_.ListUnfinished());
  for (const SnapshotRecord& snapshot : snapshots) sets.push_back(SetOf(snapshot));
  MOORING_ASSIGN_OR_RETURN(const std::vector<GroupRecord> groups, store_.ListUnfinishedGroups());
  for (const GroupRecord& group : groups) {
    MOORING_ASSIGN_OR_RETURN(std::optional<SnapshotSet> set, WithMembers(group));
    if (set) sets.push_back(*std::move(set));
  }
  return sets;
}

}  // namespace mooring
