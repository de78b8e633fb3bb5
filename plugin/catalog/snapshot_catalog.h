// Creates, lists and deletes snapshots, single ones and groups: the work of the Controller and GroupController
// services, without gRPC.
//
// A snapshot is an independent copy: its volume may be deleted, and so may a snapshot from which volumes were created.
// Every change is recorded before it is made and afterwards:
//
//               Insert             copied            Delete            removed
//     (no row) ───────▶ creating ─────────▶ ready ──────────▶ deleting ───────▶ (no row)
//                           │                 ▲                │   ▲
//                           │                 └── still in use ┘   │
//                           └── failed, given up, cut short ───────┘
//
// No call returns the id of a snapshot before the snapshot is ready. An interrupted copy is never finished later,
// because it would be of another instant than its record says. It is rolled back, the volumes are thawed
// (Contents::Thaw), and the repeated call begins anew. A group and its members change their state together.
//
// A row in `creating` or `deleting` may be older than its images, because an administrator may have put back an old
// copy of the catalog. Images get their names when they are whole. So Settle makes a snapshot ready if all its images
// exist.
//
// Calls for one name wait for each other, then for the volumes (in the order of their ids) or the snapshot, until
// Call::wait_until, and are ABORTED then. The locks are shared with the other processes on the state directory.
#ifndef MOORING_PLUGIN_CATALOG_SNAPSHOT_CATALOG_H_
#define MOORING_PLUGIN_CATALOG_SNAPSHOT_CATALOG_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/keyed_lock.h"
#include "mounter/mounter.h"
#include "plugin/backends/pools.h"
#include "plugin/catalog/store/snapshot_store.h"
#include "plugin/catalog/volume_catalog.h"
#include "plugin/model/call.h"
#include "plugin/model/snapshot_specs.h"

namespace mooring {

class SnapshotCatalog {
 public:
  // All of them outlive the catalog. `locks` are the locks of the volumes.
  SnapshotCatalog(SnapshotStore& store, VolumeCatalog& volumes, const Pools& pools, KeyedLocks& locks,
                  Contents& contents);

  // Finds or creates the snapshot with that name. ALREADY_EXISTS: it is of another volume. NOT_FOUND: the volume does
  // not exist. FAILED_PRECONDITION: the pool has no snapshots. RESOURCE_EXHAUSTED: there is no room.
  absl::StatusOr<SnapshotInfo> Create(const CreateSnapshotSpec& spec, const Call& call);

  // OK if it does not exist. INVALID_ARGUMENT: it is a member of a group.
  absl::Status Delete(const std::string& id, const Call& call);

  absl::StatusOr<SnapshotInfo> Get(const std::string& id);  // NOT_FOUND: it does not exist or is not ready
  absl::StatusOr<SnapshotPage> List(const ListSnapshotsSpec& spec);

  // Creates all members, at one instant, or none. They are in the pool of the first volume. Codes as Create.
  // ALREADY_EXISTS: the group with that name is of other volumes.
  absl::StatusOr<GroupInfo> CreateGroup(const CreateGroupSpec& spec, const Call& call);

  // INVALID_ARGUMENT: the group has other members than the call names. Delete is OK if the group does not exist.
  absl::StatusOr<GroupInfo> GetGroup(const GroupSpec& spec);
  absl::Status DeleteGroup(const GroupSpec& spec, const Call& call);

  // The image of a snapshot, for reading its blocks. NOT_FOUND as Get.
  struct Image {
    SnapshotInfo snapshot;
    std::string path;
  };
  absl::StatusOr<Image> Locate(const std::string& id);

  // Runs at the start, before any call, and before VolumeCatalog::Reconcile. It skips snapshots that another process
  // has locked.
  absl::Status Reconcile();

 private:
  // A single snapshot, or a group with its members.
  struct Set {
    std::string id;    // of the snapshot or the group
    std::string name;  // of the snapshot or the group
    bool is_group = false;
    SnapshotState state = SnapshotState::kCreating;
    std::vector<SnapshotRecord> snapshots;
  };
  static SnapshotInfo ToInfo(const SnapshotRecord& record);
  static GroupInfo ToInfo(const Set& group);
  static Set Alone(const SnapshotRecord& snapshot);
  absl::StatusOr<Set> WithMembers(const GroupRecord& group);
  absl::StatusOr<std::optional<Set>> WhileThere(const GroupRecord& group);
  absl::StatusOr<std::optional<Set>> Find(const std::string& id, bool is_group);
  absl::StatusOr<std::optional<Set>> FindNamed(const std::string& name, bool is_group);

  // A volume of which a snapshot is made.
  struct Source {
    VolumeInfo volume;
    std::string path;
    std::uint64_t bytes = 0;
  };
  absl::StatusOr<Source> FindSource(const std::string& volume_id);
  absl::StatusOr<const Pool*> PoolOf(const SnapshotRecord& record) const;
  absl::StatusOr<SnapshotRecord> FindReady(const std::string& id);

  absl::StatusOr<KeyedLocks::Hold> LockName(const std::string& name, bool is_group, const Call& call);
  absl::StatusOr<std::vector<KeyedLocks::Hold>> LockAll(std::vector<std::string> ids, const Call& call);

  // snapshot_catalog_create.cc. The caller holds the lock of the name.
  absl::StatusOr<Set> FindOrMake(const std::string& name, bool is_group, const std::vector<std::string>& volume_ids,
                                 const Call& call);
  absl::StatusOr<Set> Make(const std::string& name, bool is_group, const std::vector<std::string>& volume_ids,
                           const Call& call);
  absl::Status InsertWithRoom(const Set& set, const Call& call);
  absl::Status Populate(const Set& set, const std::vector<Source>& sources);
  absl::Status Settle(const Set& unfinished);
  absl::Status ClearName(const Set& unfinished, const Call& call);

  // snapshot_catalog_delete.cc. The caller holds the locks of the set and, if it is `creating`, of its sources.
  absl::Status DeleteSet(Set set);
  absl::Status DeleteImagesAndRecords(const Set& set, bool may_be_frozen);
  absl::StatusOr<bool> HasAllImages(const Set& set) const;
  absl::Status ThawSources(const Set& set);
  absl::Status DeleteImages(const Set& set);
  void FinishInterrupted(const Set& listed);
  absl::Status ReportLostImages();

  SnapshotStore& store_;
  VolumeCatalog& volumes_;
  const Pools& pools_;
  KeyedLocks& locks_;
  Contents& contents_;
};

}  // namespace mooring

#endif  // MOORING_PLUGIN_CATALOG_SNAPSHOT_CATALOG_H_
