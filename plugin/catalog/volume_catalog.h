// The volumes there are: created, deleted, published to nodes, grown, listed. What the Controller service does, without
// gRPC.
//
// Every change is written down before it is made and after (intent, act, outcome), so a process killed in between
// leaves something that the next call or the next start finishes:
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
// A row that is left in `creating` or `deleting` may be older than its image: an old copy of the catalog may have been
// put back. So no data is deleted because of such a row (Settle): the orchestrator repeats the call that it belongs to.
//
// The id of a volume is told to nobody before it is ready. Calls for one volume wait for each other (until
// Call::wait_until, then ABORTED) by a lock that is shared with the node side and with the other processes on the same
// state directory (an old and a new plugin during an update, a controller beside a node). What goes on in the store and
// at the images is safe without it, too: compare-and-set there, a lock on the image here (image_backend.h).
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
#include "plugin/catalog/catalog_store.h"
#include "plugin/catalog/snapshot_store.h"
#include "plugin/model/call.h"
#include "plugin/model/volume_source.h"
#include "plugin/model/volume_specs.h"

namespace mooring {

class VolumeCatalog : public VolumeSource {
 public:
  struct Settings {
    std::string node_id;           // the only node these volumes can be published to
    Segments topology;             // of that node
    std::int64_t max_volumes = 0;  // published to it at a time; 0: no limit
  };

  // All of them outlive the catalog. `volume_locks` is shared with the node side; a volume's key is its id.
  VolumeCatalog(CatalogStore& store, SnapshotStore& snapshots, const Pools& pools, KeyedLocks& volume_locks,
                Contents& contents, Settings settings);

  // VolumeSource. INTERNAL where the catalog has the volume and its image is gone.
  absl::StatusOr<NodeVolume> Find(const std::string& id) override;
  std::vector<KnownDevice> KnownDevices() override;
  void WaitFor(const std::string& id, std::chrono::steady_clock::time_point until) override;

  // The volume of that name, made where there is none. ALREADY_EXISTS: it is there with another size, filesystem or
  // place, or from another source. NOT_FOUND: no such source. RESOURCE_EXHAUSTED: not reachable from where it is
  // wanted, or no room. OUT_OF_RANGE: the size.
  absl::StatusOr<VolumeInfo> Create(const CreateVolumeSpec& spec, const Call& call);

  // What a volume can be a copy of. NOT_FOUND for what is not ready.
  struct Source {
    BackendKind kind = BackendKind::kImage;
    std::string path;
    std::uint64_t bytes = 0;
    std::uint64_t asked_bytes = 0;  // that were asked for
    std::string fs_type;
    std::string pool;
    bool block_only = false;
  };
  absl::StatusOr<Source> FindSource(const ContentSource& wanted);

  // Gone already is OK. Snapshots and copies of it stay. FAILED_PRECONDITION: in use on this host, or published to a
  // node.
  absl::Status Delete(const std::string& id, const Call& call);

  // NOT_FOUND for what is not ready.
  absl::StatusOr<VolumeInfo> Get(const std::string& id);

  absl::StatusOr<VolumePage> List(const ListVolumesSpec& spec);
  absl::StatusOr<CapacityInfo> Capacity(const CapacitySpec& spec);

  // The size it has then. OUT_OF_RANGE: it cannot be had.
  absl::StatusOr<std::uint64_t> Expand(const ControllerExpandSpec& spec, const Call& call);

  // Records what is to be another way and hands the volume to `apply`, which tells its devices and mounts, under its
  // lock; where that fails all is as before, and so are they. INVALID_ARGUMENT: its pool has no such thing.
  using Apply = std::function<absl::Status(const NodeVolume& volume)>;
  absl::Status Modify(const ModifySpec& spec, const Apply& apply, const Call& call);

  // Again with the same access type and `read_only` is OK, else ALREADY_EXISTS. NOT_FOUND: no such volume or node.
  // FAILED_PRECONDITION: published to another node. RESOURCE_EXHAUSTED: the node has max_volumes.
  absl::Status Publish(const ControllerPublishSpec& spec, const Call& call);
  absl::Status Unpublish(const ControllerUnpublishSpec& spec, const Call& call);

  // At the start, before any call: finishes or takes back what a killed process left, and compares the records with
  // what the pools hold. What has no record is only reported. What another process is at work on is left to it.
  absl::Status Reconcile();

  // Of a pool that may promise only so much: held until what takes the room is on record. RESOURCE_EXHAUSTED: there is
  // no room for so much more; OUT_OF_RANGE: there never could be.
  absl::StatusOr<std::optional<KeyedLocks::Hold>> HoldRoom(const Pool& pool, std::uint64_t more_bytes,
                                                           const Call& call);

  const Segments& topology() const { return settings_.topology; }
  const Pools& pools() const { return pools_; }

 private:
  static VolumeInfo ToInfo(ListedVolume listed);

  // NOT_FOUND for what is no id of ours.
  absl::StatusOr<KeyedLocks::Hold> Lock(const std::string& id, const Call& call);
  absl::StatusOr<KeyedLocks::Hold> LockName(const std::string& name, const Call& call);
  absl::StatusOr<VolumeRecord> FindReady(const std::string& id);

  // FAILED_PRECONDITION: the plugin was not started with the pool of the volume.
  absl::StatusOr<const Pool*> PoolOf(const VolumeRecord& record) const;

  // Whether all of `wanted` holds on this node.
  bool IsHere(const Segments& wanted) const;
  bool IsReachable(const std::vector<Segments>& topologies) const;

  absl::Status CheckAccess(const VolumeRecord& record, const Capability& capability) const;

  // volume_catalog_room.cc
  struct Room {
    std::uint64_t left = 0;  // bytes that may be promised yet
    std::uint64_t most = 0;  // if there were no volumes
    BackendCapacity capacity;
  };
  absl::StatusOr<Room> RoomIn(const Pool& pool);
  absl::StatusOr<bool> InsertWithRoom(const VolumeRecord& record, const Call& call);
  // What is wrong with the pools, each asked once.
  using Shortages = std::map<std::string, std::string>;
  std::string AilmentOf(const VolumeRecord& record, Shortages& shortages) const;
  VolumeInfo InfoWithAilment(ListedVolume listed, Shortages& shortages) const;

  absl::Status CheckMatches(const VolumeRecord& existing, const CreateVolumeSpec& spec) const;
  absl::StatusOr<VolumeRecord> NewRecord(const CreateVolumeSpec& spec);
  absl::Status CheckSameDevice(const VolumeRecord& existing, const CreateVolumeSpec& spec);
  absl::Status MakeIn(const Pool& pool, VolumeRecord& record, const CreateVolumeSpec& spec);
  absl::Status Finish(VolumeRecord& record, const CreateVolumeSpec& spec);
  absl::Status ClearName(const VolumeRecord& unfinished, const Call& call);
  absl::Status CheckUnpublished(const std::string& id);
  absl::StatusOr<bool> HasDataToKeep(const VolumeRecord& unfinished) const;
  absl::Status Settle(const VolumeRecord& unfinished);
  absl::Status Erase(const VolumeRecord& record);

  // Of volumes that are copies: volume_catalog_clone.cc. A source is held while it is copied, and while it is thawed
  // after a copy that was cut short, so that this is no other copy's.
  absl::StatusOr<std::optional<KeyedLocks::Hold>> LockSource(const std::string& id, const Call& call);
  absl::StatusOr<VolumeRecord> NewClone(const CreateVolumeSpec& spec);
  absl::Status Populate(const VolumeRecord& record, const CreateVolumeSpec& spec);
  absl::Status ThawSource(const VolumeRecord& record);
  absl::Status TakeBack(const VolumeRecord& record, bool may_be_frozen);
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
