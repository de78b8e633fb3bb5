// Stages, publishes, unpublishes and unstages volumes on this node, through a Mounter. It does not know gRPC.
//
//            Stage                     Publish (bind, or the device node)
//   created ───────▶ staged at path(s) ─────────────────────────────▶ published at target(s)
//           ◀───────                   ◀─────────────────────────────
//            Unstage                   Unpublish
//
// How a volume is mounted depends on Staging (plugin/model/backend_traits.h):
//
// kLoopDevice, mounted: the kernel creates the loop device with the first mount and removes it with the last one
// (LO_FLAGS_AUTOCLEAR), in any order. Raw: the kernel does not hold a device whose node is only bound. So the first
// Stage creates the device, a process holds it open (mounter/loop/device_holder.h), and the end of the last staging
// path and target detaches it. A read-only raw target is bound from a second, read-only loop device on top of the first
// one: the image never has two.
//
// kBlockDevice: the device node itself is mounted and bound; only read-only raw targets need a loop device. Raw
// stagings exist only as records.
//
// kMemory: the first Stage mounts a tmpfs. Later stagings and targets bind it, and it ends with the last mount.
//
// kDirectory: Stage binds the directory.
//
// The kernel knows which volume is mounted at a path without a record: plugin/model/volume_mount.h.
//
// Orchestrators create staging directories, and unstage and remove them. For orchestrators that do not (Docker Swarm),
// this class does it: StagingBy::kPlugin.
//
// Calls for one volume or one path wait for each other. Other calls run in parallel.
#ifndef MOORING_PLUGIN_NODE_NODE_VOLUMES_H_
#define MOORING_PLUGIN_NODE_NODE_VOLUMES_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/keyed_lock.h"
#include "mounter/mounter.h"
#include "plugin/model/call.h"
#include "plugin/model/capability.h"
#include "plugin/model/staging_by.h"
#include "plugin/model/volume_mount.h"
#include "plugin/model/volume_source.h"
#include "plugin/node/node_store.h"

namespace mooring {

struct StageSpec {
  std::string volume_id;
  std::string staging_path;
  Capability capability;
  bool read_only = false;

  // Set if the volume is mounted at a target, without a staging path: PublishAlone.
  struct AsTarget {
    std::optional<Propagation> asked;
    Propagation propagation = Propagation::kInherit;
  };
  std::optional<AsTarget> as_target = std::nullopt;
};

struct PublishSpec {
  std::string volume_id;
  std::string staging_path;  // empty: FAILED_PRECONDITION
  std::string target_path;
  Capability capability;
  bool read_only = false;
  std::optional<Propagation> propagation = std::nullopt;  // none: that of the volume, or else of the plugin
};

struct ExpandSpec {
  std::string volume_id;
  std::string volume_path;
  std::uint64_t required_bytes = 0;  // 0: the size of the volume
  std::uint64_t limit_bytes = 0;     // 0: none
};

struct VolumeStats {
  StatsInfo usage;
  bool is_block = false;
  std::string problem;  // a sentence; empty: healthy
};

class NodeVolumes {
 public:
  // All references must outlive it. `volume_locks` is shared with the catalog, so no volume is deleted while it is
  // staged. `propagation`: of targets for which neither the request nor the volume has one.
  NodeVolumes(Mounter& mounter, VolumeSource& source, NodeStore& store, KeyedLocks& volume_locks,
              Propagation propagation = Propagation::kInherit, StagingBy staging_by = StagingBy::kOrchestrator)
      : mounter_(mounter),
        source_(source),
        store_(store),
        volume_locks_(volume_locks),
        propagation_(propagation),
        makes_staging_(staging_by == StagingBy::kPlugin) {}

  absl::Status Stage(const StageSpec& spec, const Call& call);
  absl::Status Unstage(const std::string& volume_id, const std::string& staging_path, const Call& call) {
    return EndStage(volume_id, staging_path, call).status();
  }
  absl::Status Publish(const PublishSpec& spec, const Call& call);
  absl::Status Unpublish(const std::string& volume_id, const std::string& target_path, const Call& call) {
    return EndPublish(volume_id, target_path, call).status();
  }

  // Unstage and Unpublish that return the id of the volume which was at the path. It differs from `volume_id` if the
  // latter is unknown. Empty: no volume of this plugin was there.
  absl::StatusOr<std::string> EndStage(const std::string& volume_id, const std::string& staging_path, const Call& call);
  absl::StatusOr<std::string> EndPublish(const std::string& volume_id, const std::string& target_path,
                                         const Call& call);

  // Publish without a staging path: the volume is mounted at the target. Only for writable filesystems.
  absl::Status PublishAlone(const PublishSpec& spec, const Call& call);
  absl::StatusOr<std::vector<std::string>> LivePaths(const std::string& volume_id);  // where it is staged or published

  // The commands that unpublish and unstage the volume at all its paths on this host, in this order. They are for
  // errors that say that a volume is in use, because the orchestrator may have forgotten it. Empty: there is no such
  // path.
  std::string CommandsToFree(const std::string& volume_id);

  absl::StatusOr<VolumeStats> Stats(const std::string& volume_id, const std::string& volume_path);
  absl::StatusOr<std::uint64_t> Expand(const ExpandSpec& spec, const Call& call);  // the capacity in bytes
  absl::Status CheckIsAt(const std::string& volume_id,
                         const std::string& path);  // NOT_FOUND: no such volume, or not at the path

  // Applies changed settings of the volume to all its devices and mounts. The caller holds the volume's lock. Mounts in
  // other mount namespaces are copies, and keep their flags.
  absl::Status Tune(const NodeVolume& volume);

  // The problems of the filesystems of these volumes, by volume id. Volumes that are healthy or not mounted here are
  // left out. It takes little more than two seconds, even if a filesystem hangs.
  using Problems = std::map<std::string, std::string>;
  absl::StatusOr<Problems> FindProblems(const std::set<std::string>& volume_ids);

  // Ends the waiting for locks of paths. The owner of `volume_locks` ends the waiting for these.
  void Stop() { path_locks_.Stop(); }

  // Compares records and mounts, once, before the first call. It deletes records of mounts that do not exist, adopts
  // mounts without a record, and detaches unused block devices. With StagingBy::kPlugin it unstages volumes without a
  // target: no other call would end a Stage whose caller has gone.
  absl::Status Reconcile();

 private:
  struct Hold {
    KeyedLocks::Hold volume;
    KeyedLocks::Hold path;
  };
  absl::StatusOr<Hold> Acquire(const std::string& volume_id, const std::string& path, const Call& call);

  // A path whose use is to end, locked together with the volume that uses it (see CheckOwner).
  struct Ending {
    Hold hold;
    PathInfo place;
    std::optional<VolumeUse> known;
    std::string owner;  // empty: no volume of this plugin
  };
  absl::StatusOr<Ending> AcquireToEnd(const std::string& volume_id, const std::string& path, const Call& call);

  // node_stage.cc
  absl::Status StageMount(const StageSpec& spec, const NodeVolume& volume, const PathInfo& place);
  absl::Status StageFilesystem(const StageSpec& spec, const NodeVolume& volume);
  absl::Status StageBlock(const StageSpec& spec, const NodeVolume& volume);
  absl::Status StageDirectory(const StageSpec& spec, const NodeVolume& volume);
  absl::Status StageMemory(const StageSpec& spec, const NodeVolume& volume);
  absl::Status StageDevice(const StageSpec& spec, const NodeVolume& volume);
  absl::Status StageRawDevice(const StageSpec& spec, const NodeVolume& volume);
  absl::Status CheckNoRawUse(const StageSpec& spec);
  absl::StatusOr<std::optional<std::string>> FindMemory(const std::string& volume_id);
  absl::Status PutStaged(const StageSpec& spec, const std::function<absl::Status()>& mount);
  absl::Status CheckBlockStagedThere(const StageSpec& spec);
  absl::Status CheckStagedAlike(const StageSpec& spec, const NodeVolume& volume, const PathInfo& place);
  absl::StatusOr<std::string> PrepareFilesystem(const StageSpec& spec, const NodeVolume& volume, bool in_use);
  absl::Status MountStaged(const StageSpec& spec, const NodeVolume& volume, const std::string& fs_type, bool in_use);
  absl::Status CheckSameOptions(const StageSpec& spec);
  absl::StatusOr<bool> IsMountedElsewhere(const StageSpec& spec);  // according to the records
  absl::Status FinishMounted(const StageSpec& spec, const NodeVolume& volume, const std::string& fs_type, bool in_use);
  absl::Status CheckStagingDirectory(const std::string& path, const PathInfo& place) const;
  absl::Status EndStaging(const std::string& volume_id, const std::string& staging_path, const Ending& ending);
  absl::StatusOr<bool> HasTarget(const std::string& volume_id);
  absl::Status UnstageUnused(const std::string& volume_id, const Call& call);
  absl::Status UnstageIfUnused(const std::string& volume_id, const std::string& staging_path, const Call& call);

  // node_publish.cc
  absl::Status CheckOtherTargets(const PublishSpec& spec);
  struct Plan {
    BindRequest bind;
    std::string options;  // of the staged filesystem
  };
  absl::Status CheckPublishedAlike(const PublishSpec& spec, const NodeVolume& volume, const PathInfo& target);
  absl::Status AdoptTarget(const PublishSpec& spec, const NodeVolume& volume, const PathInfo& target);
  absl::StatusOr<Plan> PlanFilesystem(const PublishSpec& spec, const NodeVolume& volume);
  absl::StatusOr<Plan> PlanBlock(const PublishSpec& spec, const NodeVolume& volume);
  absl::StatusOr<std::string> StagedDevice(const PublishSpec& spec, const NodeVolume& volume,
                                           const std::optional<VolumeUse>& staged);
  absl::Status EndTarget(const std::string& volume_id, const std::string& target_path, const Ending& ending);
  struct BlockTargets {  // on record
    bool readers = false;
    bool writers = false;
  };
  absl::StatusOr<BlockTargets> BlockTargetsOf(const std::string& volume_id, const std::string& gone = "");
  absl::Status HoldStacked(const std::string& volume_id, const std::string& gone = "");
  absl::Status BindPlanned(const PublishSpec& spec, const NodeVolume& volume, const Plan& plan);
  Propagation PropagationFor(const PublishSpec& spec) const { return spec.propagation.value_or(propagation_); }
  absl::Status CheckMayBeShared(const PublishSpec& spec, const BindRequest& bind) const;
  absl::Status HoldAgain(const NodeVolume& volume, const LoopInfo& loop);

  // node_grow.cc
  absl::Status GrowUnmounted(const NodeVolume& volume, const std::string& fs_type);
  absl::Status GrowMounted(const NodeVolume& volume, const std::string& path, const std::string& fs_type);
  std::string RoomProblem(const std::string& volume_id, const std::string& fs_type, const StatsInfo& usage);
  std::string RoomUnused(const std::string& volume_id, const std::string& fs_type, const StatsInfo& usage);

  // node_expand.cc
  absl::Status ExpandWithoutDevice(const NodeVolume& volume, const std::string& path);

  // node_volumes.cc
  std::string Owner(const PathInfo& info);  // OwnerOf(info), or the volume of the device that is mounted or bound there
  struct Place {
    std::string path;  // for statistics: the path itself, or the device that is staged there
    PathInfo info;
  };
  absl::StatusOr<Place> FindVolumeAt(const std::string& volume_id, const std::string& path);
  absl::Status CheckOwner(const std::string& volume_id, const std::string& path, const std::string& owner);
  absl::Status CheckMount(const std::string& volume_id, const std::string& path, const PathInfo& info);
  absl::Status UnmountVolume(const std::string& volume_id, const std::string& path, PathInfo info, bool remove_target);
  absl::Status CheckNoVolumeBelow(const std::string& volume_id, const std::string& path, const MountInfo& info);
  absl::Status UnmountWithBelow(const std::string& volume_id, const std::string& path, const absl::Status& refused);
  absl::Status ReleaseDevices(const std::string& volume_id, const std::string& gone = "");
  absl::Status DetachUnbound(const std::string& volume_id, const std::vector<LoopInfo>& loops,
                             const std::vector<MountInfo>& mounts, bool needed);
  absl::Status DeleteStaleAdopted(const std::vector<VolumeUse>& uses, const std::vector<MountInfo>& mounts);
  absl::Status Record(const VolumeUse& use);
  absl::Status DeleteRecord(const std::string& path);
  absl::StatusOr<bool> IsLive(const VolumeUse& use);

  // node_tune.cc
  absl::Status TuneMount(const NodeVolume& volume, const VolumeUse& use);
  absl::Status TuneDevice(const NodeVolume& volume, const LoopInfo& loop);
  absl::Status TuneDevices(const NodeVolume& volume);

  // node_health.cc
  std::string ImageProblem(const std::string& volume_id, std::uint64_t device_bytes);
  absl::StatusOr<std::string> MountProblem(const VolumeUse& use);
  absl::StatusOr<std::string> BlockTargetProblem(const VolumeUse& use);
  Problems ProblemsOf(const std::vector<VolumeUse>& uses);

  // node_reconcile.cc
  struct Listing {
    std::vector<MountInfo> mounts;
    std::vector<LoopInfo> loops;
    std::vector<KnownDevice> devices;
  };
  absl::Status DropStale(const Listing& listing);
  absl::Status HoldBlockDevices();
  absl::Status HoldDevicesOf(const std::string& volume_id, const std::vector<LoopInfo>& loops);
  absl::Status DropIfStale(const VolumeUse& use);
  absl::Status AcceptPropagation(VolumeUse use, const MountInfo& mount);
  struct Found {
    std::vector<VolumeUse> mounted;
    bool has_block_device = false;
  };
  absl::Status ReconcileVolume(const std::string& volume_id, const Found& found);
  absl::Status Adopt(const std::vector<VolumeUse>& found);
  absl::Status UnstageAllUnused();

  Mounter& mounter_;
  VolumeSource& source_;
  NodeStore& store_;
  KeyedLocks& volume_locks_;
  const Propagation propagation_;
  const bool makes_staging_;
  KeyedLocks path_locks_;
};

Staging StagingOf(const NodeVolume& volume);

// INVALID_ARGUMENT: volumes of this kind are no block devices, or have no choice of filesystem or filesystem options.
absl::Status CheckSuits(const NodeVolume& volume, const Capability& capability);

// For the mount at a staging path, or at a target without a staging path. A staging path is private, so that mounts
// that tasks make below a target do not appear in it.
MountFlags StagedFlags(const StageSpec& spec, const NodeVolume& volume);
Propagation StagedPropagation(const StageSpec& spec);
VolumeUse StagedUse(const StageSpec& spec);  // not done

// The options for mounting a tmpfs of this size, or changing its size.
std::vector<FilesystemOption> MemoryOptions(std::uint64_t bytes);

// Whether a block target is a device node that belongs to `owner` or to no volume: another program has detached the
// loop device of its volume.
bool IsStrayNode(const VolumeUse& use, const PathInfo& place, const std::string& owner);

// Whether the mount has this propagation. A slave may be without a master.
bool HasPropagation(const MountInfo& info, Propagation propagation);

// DEADLINE_EXCEEDED: a device of the volume does not answer.
absl::Status CheckNoneHangs(const std::string& volume_id, const std::vector<LoopInfo>& loops);

// Logs a failed attempt (`held`) to hold the volume's devices open.
void WarnIfNotHeld(const std::string& volume_id, const absl::Status& held);

std::string FullnessOf(const StatsInfo& usage);  // a sentence if 95 % of the bytes or inodes are used, else empty

}  // namespace mooring

#endif  // MOORING_PLUGIN_NODE_NODE_VOLUMES_H_
