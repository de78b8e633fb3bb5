// The snapshots and groups of them on disk: what was asked, and how far it got. In the catalog's file, on the
// connections of CatalogStore, under the same promises: on disk when a call returns, safe from several threads, nothing
// throws.
//
// The tables are beside those of the volumes: programs that know nothing of them read and write the volumes as before.
// They are made at the opening or, where the disk is full then, with the first snapshot.
#ifndef MOORING_PLUGIN_CATALOG_SNAPSHOT_STORE_H_
#define MOORING_PLUGIN_CATALOG_SNAPSHOT_STORE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "plugin/catalog/catalog_store.h"

namespace mooring {

using SnapshotState = VolumeState;  // the same life

struct SnapshotRecord {
  std::int64_t seq = 0;  // the order of creation, given by Insert, never given twice
  std::string id;
  std::string name;      // the orchestrator's; a member of a group has the group's
  std::string group_id;  // empty: it is none's member
  std::string source_volume_id;
  std::string pool;
  SnapshotState state = SnapshotState::kCreating;
  std::uint64_t bytes = 0;
  std::string fs_type;
  std::int64_t created_at = 0;  // nanoseconds since 1970
  bool block_only = false;      // its volume was: VolumeRecord::block_only
  // The size that the volume was asked for with: orchestrators restore into no less than a snapshot's size_bytes, and a
  // claim of the volume's own size has to do. A restored volume gets `bytes` at least. 0: as `bytes`.
  std::uint64_t restore_bytes = 0;
};

struct GroupRecord {
  std::string id;
  std::string name;
  SnapshotState state = SnapshotState::kCreating;  // its members' as well
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
  static absl::StatusOr<std::unique_ptr<SnapshotStore>> Open(std::shared_ptr<CatalogDatabase> database);
  ~SnapshotStore();

  // False where the id is taken, or the name by one that is no group's member.
  absl::StatusOr<bool> Insert(const SnapshotRecord& snapshot);

  // With its members, all or none. False where the group's name or an id is taken.
  absl::StatusOr<bool> InsertGroup(const GroupRecord& group, const std::vector<SnapshotRecord>& members);

  // Compare and set: false where it is gone or not in the state `from`. Of a snapshot without a group, or of a group
  // with its members.
  absl::StatusOr<bool> Move(const std::string& id, SnapshotState from, SnapshotState to);
  absl::Status Remove(const std::string& id);  // gone already is OK

  absl::StatusOr<std::optional<SnapshotRecord>> FindById(const std::string& id);
  absl::StatusOr<std::optional<SnapshotRecord>> FindByName(const std::string& name);  // no group's member
  absl::StatusOr<std::optional<GroupRecord>> FindGroupById(const std::string& id);
  absl::StatusOr<std::optional<GroupRecord>> FindGroupByName(const std::string& name);
  absl::StatusOr<std::vector<SnapshotRecord>> Members(const std::string& group_id);

  absl::StatusOr<std::vector<SnapshotRecord>> ListReady(const SnapshotFilter& filter);  // by seq

  // Creating or deleting. Snapshots without a group; their groups speak for the others.
  absl::StatusOr<std::vector<SnapshotRecord>> ListUnfinished();
  absl::StatusOr<std::vector<GroupRecord>> ListUnfinishedGroups();

  absl::StatusOr<std::vector<PoolCount>> CountByPool();            // as CatalogStore's
  absl::StatusOr<std::vector<UnfinishedRecord>> NameUnfinished();  // likewise, members of groups among them
  absl::StatusOr<std::uint64_t> BytesIn(const std::string& pool);  // their sizes together, in whatever state
  absl::StatusOr<std::vector<std::string>> AllIds();               // of snapshots, in whatever state

 private:
  struct Writer;
  struct Reader;

  explicit SnapshotStore(std::shared_ptr<CatalogDatabase> database);

  // `action` takes the statements; called under the connection's lock. Without tables there is nothing to look up.
  template <typename Action>
  auto Write(std::string_view what, Action action);
  template <typename Value, typename Action>
  absl::StatusOr<Value> Read(Action action);

  const std::shared_ptr<CatalogDatabase> database_;  // outlives the statements on it
  std::unique_ptr<Writer> writer_;                   // none: there are no tables yet
  std::unique_ptr<Reader> reader_;
};

}  // namespace mooring

#endif  // MOORING_PLUGIN_CATALOG_SNAPSHOT_STORE_H_
