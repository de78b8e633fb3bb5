// The snapshots there are, alone and in groups: made, listed, deleted. What the Controller and the GroupController
// service do with them, without gRPC.
//
// A snapshot is a copy that stands for itself: its volume may be deleted, as may a snapshot that volumes were made of.
// Every change is written down before it is made and after:
//
//               Insert             copied            Delete            removed
//     (no row) ───────▶ creating ─────────▶ ready ──────────▶ deleting ───────▶ (no row)
//                           │                 ▲                │   ▲
//                           │                 └── still in use ┘   │
//                           └── failed, given up, cut short ───────┘
//
// The id of a snapshot is told to nobody before it is ready. A copy that was cut short is never finished later: it
// would be of another instant than its record says. It is taken back, the volumes go on (Contents::Thaw), and the same
// call begins anew. A group is one of these with all its members: they become ready, and go, together.
//
// A row that is left in `creating` or `deleting` may be older than its images: an old copy of the catalog may have been
// put back. Images get their names when they are whole. So where all of them are there, the snapshot is ready (Settle).
//
// Calls for one name wait for each other, then for the volumes (in the order of their ids) or the snapshot, until
// Call::wait_until, and are ABORTED then. All these locks are shared with the other processes on the state directory.
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
#include "plugin/catalog/snapshot_store.h"
#include "plugin/catalog/volume_catalog.h"
#include "plugin/model/call.h"
#include "plugin/model/snapshot_specs.h"

namespace mooring {

class SnapshotCatalog {
 public:
  // All of them outlive the catalog. `locks` are those of the volumes.
  SnapshotCatalog(SnapshotStore& store, VolumeCatalog& volumes, const Pools& pools, KeyedLocks& locks,
                  Contents& contents);

  // The snapshot of that name, made where there is none. ALREADY_EXISTS: it is of another volume. NOT_FOUND: no such
  // volume. FAILED_PRECONDITION: its pool has no snapshots. RESOURCE_EXHAUSTED: no room.
  absl::StatusOr<SnapshotInfo> Create(const CreateSnapshotSpec& spec, const Call& call);

  // Gone already is OK. INVALID_ARGUMENT: it is a group's member.
  absl::Status Delete(const std::string& id, const Call& call);

  absl::StatusOr<SnapshotInfo> Get(const std::string& id);  // NOT_FOUND for what is not ready
  absl::StatusOr<SnapshotPage> List(const ListSnapshotsSpec& spec);

  // All of one instant, all or none, in the pool of the volume that is named first. Codes as of Create;
  // ALREADY_EXISTS: the group of that name is of other volumes.
  absl::StatusOr<GroupInfo> CreateGroup(const CreateGroupSpec& spec, const Call& call);

  // INVALID_ARGUMENT: the group has other members than are named. Delete: gone already is OK.
  absl::StatusOr<GroupInfo> GetGroup(const GroupSpec& spec);
  absl::Status DeleteGroup(const GroupSpec& spec, const Call& call);

  // The image of a snapshot, for its contents to be looked at. NOT_FOUND as Get.
  struct Image {
    SnapshotInfo snapshot;
    std::string path;
  };
  absl::StatusOr<Image> Locate(const std::string& id);

  // At the start, before any call, and before VolumeCatalog::Reconcile. What another process is at work on is left to
  // it.
  absl::Status Reconcile();

 private:
  // Snapshots that live and die together: one alone, or a group with its members.
  struct Set {
    std::string id;    // the snapshot's, or the group's
    std::string name;  // the same one's
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

  // A volume that a snapshot is made of.
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

  // snapshot_catalog_create.cc. The name is held.
  absl::StatusOr<Set> FindOrMake(const std::string& name, bool is_group, const std::vector<std::string>& volume_ids,
                                 const Call& call);
  absl::StatusOr<Set> Make(const std::string& name, bool is_group, const std::vector<std::string>& volume_ids,
                           const Call& call);
  absl::Status InsertWithRoom(const Set& set, const Call& call);
  absl::Status Populate(const Set& set, const std::vector<Source>& sources);
  absl::Status Settle(const Set& unfinished);
  absl::Status ClearName(const Set& unfinished, const Call& call);

  // snapshot_catalog_delete.cc. The set is held and, where it is `creating`, its sources are, too.
  absl::Status Erase(Set set);
  absl::Status TakeAway(const Set& set, bool may_be_frozen);
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
