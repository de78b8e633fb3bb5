// Creates, deletes, publishes, expands and lists volumes: the work of the Controller service, without gRPC.
//
// Every change is recorded before it is made and afterwards. So the next call or the next start finishes the change of
// a killed process:
//
//               Insert              image made
//     (no row) ───────▶ creating ──────────────▶ ready ◀──────┐
//                           │                      │          │ still in use, or cut short
//                           │ failed or given up   │ Delete   │
//                           └──────────▶ deleting ◀┴──────────┘
//                                           │ image gone
//                                           ▼
//                                        (no row)
//
// A row in `creating` or `deleting` may be older than its image, because an administrator may have put back an old copy
// of the catalog. So Settle deletes no data because of such a row, and the orchestrator repeats its call.
//
// No call returns the id of a volume before the volume is ready. Calls for one volume wait for each other until
// Call::wait_until, and are ABORTED then. Their lock is shared with the node side and with the other processes on the
// state directory: an old and a new plugin during an update, a controller beside a node. The store and the images are
// also safe without it, by compare-and-set and by a lock on the image (image_backend.h).
#ifndef MOORING_PLUGIN_CATALOG_VOLUME_CATALOG_H_
#define MOORING_PLUGIN_CATALOG_VOLUME_CATALOG_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/keyed_lock.h"
#include "plugin/backends/pools.h"
#include "plugin/catalog/store/catalog_store.h"
#include "plugin/catalog/store/snapshot_store.h"
#include "plugin/model/call.h"
#include "plugin/model/volume_source.h"
#include "plugin/model/volume_specs.h"

namespace mooring {

class VolumeCatalog : public VolumeSource {
 public:
  struct Settings {
    std::string node_id;           // the only node these volumes can be published to
    Segments topology;             // of that node
    std::int64_t max_volumes = 0;  // that may be published to it at a time; 0: no limit
  };

  // All of them outlive the catalog. `volume_locks` is shared with the node side; a volume's key is its id.
  VolumeCatalog(CatalogStore& store, SnapshotStore& snapshots, const Pools& pools, KeyedLocks& volume_locks,
                Contents& contents, Settings settings);

  // VolumeSource. INTERNAL: the catalog has the volume, and its image is missing.
  absl::StatusOr<NodeVolume> Find(const std::string& id) override;
  std::vector<KnownDevice> KnownDevices() override;
  void WaitFor(const std::string& id, std::chrono::steady_clock::time_point until) override;

  // Finds or creates the volume with that name. ALREADY_EXISTS: it exists with another size, filesystem, pool or
  // source. NOT_FOUND: the source does not exist. RESOURCE_EXHAUSTED: there is no room, or no topology that fits.
  // OUT_OF_RANGE: the size is not possible.
  absl::StatusOr<VolumeInfo> Create(const CreateVolumeSpec& spec, const Call& call);

  // A volume or snapshot that a new volume can be a copy of.
  struct Source {
    BackendKind kind = BackendKind::kImage;
    std::string path;
    std::uint64_t bytes = 0;
    std::uint64_t asked_bytes = 0;  // VolumeRecord::asked_bytes
    std::string fs_type;
    std::string pool;
    bool block_only = false;
  };
  absl::StatusOr<Source> FindSource(const ContentSource& wanted);  // NOT_FOUND: it does not exist or is not ready

  // OK if it does not exist. Its snapshots and copies stay. FAILED_PRECONDITION: it is in use on this host, or
  // published to a node.
  absl::Status Delete(const std::string& id, const Call& call);

  // NOT_FOUND: it does not exist or is not ready.
  absl::StatusOr<VolumeInfo> Get(const std::string& id);

  absl::StatusOr<VolumePage> List(const ListVolumesSpec& spec);
  absl::StatusOr<CapacityInfo> Capacity(const CapacitySpec& spec);

  // Returns the new size. OUT_OF_RANGE: the size is not possible.
  absl::StatusOr<std::uint64_t> Expand(const ControllerExpandSpec& spec, const Call& call);

  // Records the change, and calls `apply` under the volume's lock to change its devices and mounts. If `apply` fails,
  // the record and the devices get their old values again. INVALID_ARGUMENT: volumes of the pool do not have the
  // setting.
  using Apply = std::function<absl::Status(const NodeVolume& volume)>;
  absl::Status Modify(const ModifySpec& spec, const Apply& apply, const Call& call);

  // A repeated call is OK. ALREADY_EXISTS: it is published with another access type or `read_only`. NOT_FOUND: the
  // volume or the node does not exist. FAILED_PRECONDITION: it is published to another node. RESOURCE_EXHAUSTED:
  // max_volumes.
  absl::Status Publish(const ControllerPublishSpec& spec, const Call& call);
  absl::Status Unpublish(const ControllerUnpublishSpec& spec, const Call& call);

  // Runs at the start, before any call. It finishes or rolls back the unfinished changes of a killed process, and
  // compares the records with the pools. Images without a record are only logged. It skips volumes that another process
  // has locked.
  absl::Status Reconcile();

  // Locks the room of a pool with a limit (Pool::overcommit), until the caller has recorded what takes it. No lock: the
  // pool has no limit. RESOURCE_EXHAUSTED: the pool has less room left. OUT_OF_RANGE: the empty pool has less room.
  absl::StatusOr<std::optional<KeyedLocks::Hold>> HoldRoom(const Pool& pool, std::uint64_t more_bytes,
                                                           const Call& call);

  const Segments& topology() const { return settings_.topology; }
  const Pools& pools() const { return pools_; }

 private:
  static VolumeInfo ToInfo(ListedVolume listed);

  // NOT_FOUND: this plugin makes no such ids.
  absl::StatusOr<KeyedLocks::Hold> Lock(const std::string& id, const Call& call);
  absl::StatusOr<KeyedLocks::Hold> LockName(const std::string& name, const Call& call);
  absl::StatusOr<VolumeRecord> FindReady(const std::string& id);

  // FAILED_PRECONDITION: the plugin was not started with the pool of the volume.
  absl::StatusOr<const Pool*> PoolOf(const VolumeRecord& record) const;

  // Whether this node has all segments of `wanted`.
  bool IsHere(const Segments& wanted) const;
  bool IsReachable(const std::vector<Segments>& topologies) const;

  absl::Status CheckAccess(const VolumeRecord& record, const Capability& capability) const;

  // volume_catalog_room.cc
  struct Room {
    std::uint64_t left = 0;  // bytes that new volumes can have
    std::uint64_t most = 0;  // bytes that the volumes of an empty pool can have
    BackendCapacity capacity;
  };
  absl::StatusOr<Room> RoomIn(const Pool& pool);
  absl::StatusOr<bool> InsertWithRoom(const VolumeRecord& record, const Call& call);
  // BackendCapacity::shortage by pool; each pool is asked once.
  using Shortages = std::map<std::string, std::string>;
  std::string ProblemOf(const VolumeRecord& record, Shortages& shortages) const;
  VolumeInfo InfoWithProblem(ListedVolume listed, Shortages& shortages) const;

  absl::Status CheckMatches(const VolumeRecord& existing, const CreateVolumeSpec& spec) const;
  absl::StatusOr<VolumeRecord> NewRecord(const CreateVolumeSpec& spec);
  absl::Status CheckSameDevice(const VolumeRecord& existing, const CreateVolumeSpec& spec);
  absl::Status MakeIn(const Pool& pool, VolumeRecord& record, const CreateVolumeSpec& spec);
  absl::Status Finish(VolumeRecord& record, const CreateVolumeSpec& spec);
  absl::Status ClearName(const VolumeRecord& unfinished, const Call& call);
  absl::Status CheckUnpublished(const std::string& id);
  absl::StatusOr<bool> HasDataToKeep(const VolumeRecord& unfinished) const;
  absl::Status Settle(const VolumeRecord& unfinished);
  absl::Status DeleteVolume(const VolumeRecord& record);

  // volume_catalog_clone.cc. A source is locked while it is copied. It is also locked while it is thawed after an
  // interrupted copy, so that no other copy has frozen it.
  absl::StatusOr<std::optional<KeyedLocks::Hold>> LockSource(const std::string& id, const Call& call);
  absl::StatusOr<VolumeRecord> NewClone(const CreateVolumeSpec& spec);
  absl::Status Populate(const VolumeRecord& record, const CreateVolumeSpec& spec);
  absl::Status ThawSource(const VolumeRecord& record);
  absl::Status RollBack(const VolumeRecord& record, bool may_be_frozen);
  void GiveUp(const VolumeRecord& record, bool may_be_frozen);

  absl::Status FinishInterrupted();
  void FinishInterrupted(const VolumeRecord& listed);
  absl::Status CompareWithPools();
  void CompareSize(const VolumeRecord& record);

  CatalogStore& store_;
  SnapshotStore& snapshots_;
  const Pools& pools_;
  KeyedLocks& locks_;
  Contents& contents_;
  const Settings settings_;
};

}  // namespace mooring

#endif  // MOORING_PLUGIN_CATALOG_VOLUME_CATALOG_H_
