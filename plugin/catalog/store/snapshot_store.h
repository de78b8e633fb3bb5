// The records of snapshots and groups of snapshots on disk: the request and its progress. They are in the catalog's
// files, on the connections of CatalogStore, with the same promises. A name is unique in its file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "plugin/catalog/store/catalog_store.h"

namespace mooring {

using SnapshotState = VolumeState;

struct SnapshotRecord {
  std::int64_t seq = 0;  // the order of creation; Insert assigns it, and never assigns it again
  std::string id;
  std::string name;      // from the orchestrator; a member of a group has the name of the group
  std::string group_id;  // empty: not a member of a group
  std::string source_volume_id;
  std::string pool;
  SnapshotState state = SnapshotState::kCreating;
  std::uint64_t bytes = 0;
  std::string fs_type;
  std::int64_t created_at = 0;  // nanoseconds since 1970
  bool block_only = false;      // VolumeRecord::block_only of its volume
  // VolumeRecord::asked_bytes of its volume, reported as size_bytes. Orchestrators refuse to restore into less than
  // this. So a claim of the size that the volume's claim asked for can restore. The restored volume still gets at least
  // `bytes`. 0: equal to `bytes`.
  std::uint64_t restore_bytes = 0;
};

struct GroupRecord {
  std::string id;
  std::string name;
  SnapshotState state = SnapshotState::kCreating;  // also of its members
  std::int64_t created_at = 0;
};

struct SnapshotFilter {
  std::int64_t after = 0;  // seq
  std::size_t most = 0;
  std::string id = {};                // empty: any
  std::string source_volume_id = {};  // empty: any
};

class SnapshotStore {
 public:
  explicit SnapshotStore(std::shared_ptr<CatalogFiles> files) : files_(std::move(files)) {}

  // False: the id is taken, or another snapshot without a group has the name.
  absl::StatusOr<bool> Insert(const SnapshotRecord& snapshot);

  // Inserts the group with all its members or nothing. False: the group's name or an id is taken.
  absl::StatusOr<bool> InsertGroup(const GroupRecord& group, const std::vector<SnapshotRecord>& members);

  // Compares and sets the state of a snapshot without a group, or of a group with its members. False: it does not
  // exist, or is not in the state `from`.
  absl::StatusOr<bool> Move(const std::string& id, SnapshotState from, SnapshotState to);
  absl::Status Delete(const std::string& id);  // OK if it does not exist

  absl::StatusOr<std::optional<SnapshotRecord>> FindById(const std::string& id);
  // In the shared pool with that tag; empty: outside of shared pools. Without members of groups.
  absl::StatusOr<std::optional<SnapshotRecord>> FindByName(const std::string& name, std::string_view tag = {});
  absl::StatusOr<std::optional<GroupRecord>> FindGroupById(const std::string& id);
  absl::StatusOr<std::optional<GroupRecord>> FindGroupByName(const std::string& name, std::string_view tag = {});
  absl::StatusOr<std::vector<SnapshotRecord>> Members(const std::string& group_id);

  absl::StatusOr<std::vector<SnapshotRecord>> ListReady(const SnapshotFilter& filter);  // by seq

  // They are being created or deleted. Members of groups are not listed: their groups are.
  absl::StatusOr<std::vector<SnapshotRecord>> ListUnfinished();
  absl::StatusOr<std::vector<GroupRecord>> ListUnfinishedGroups();

  absl::StatusOr<std::vector<PoolCount>> CountByPool();            // as in CatalogStore
  absl::StatusOr<std::vector<UnfinishedRecord>> NameUnfinished();  // as in CatalogStore, with members of groups
  absl::StatusOr<std::uint64_t> BytesIn(const std::string& pool);  // of all, in any state: PoolRoom depends on it
  absl::StatusOr<std::vector<std::string>> AllIds();               // of snapshots, in any state

 private:
  template <typename Read>
  auto ReadAll(Read read);

  const std::shared_ptr<CatalogFiles> files_;
};

}  // namespace mooring
