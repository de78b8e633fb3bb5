// The life of a volume on this node: stage, publish, and back, over a Mounter. Knows nothing of gRPC.
//
//            Stage                     Publish (bind, or the device node)
//   created ───────▶ staged at path(s) ─────────────────────────────▶ published at target(s)
//           ◀───────                   ◀─────────────────────────────
//            Unstage                   Unpublish
//
// For a filesystem the loop device belongs to the mounts: it is made with the first and goes with the last
// (LO_FLAGS_AUTOCLEAR), in whatever order they end. For a block volume nothing in the kernel holds the device while it
// is only bound somewhere, so it is made by the first Stage, held open by a process (mounter/loop/device_holder.h), and
// detached with the last staging path and target. A read-only block target is bound from a second, read-only loop
// device stacked on the first: the file itself never has two.
//
// A volume that is a device of its own needs no loop device, but the read-only one of a raw target: its node is mounted
// and bound itself. Of its raw stagings the records alone know.
//
// A volume of memory is a tmpfs, mounted by the first Stage; the next ones, and Publish, bind it, and it goes with the
// last mount. A directory is bound by Stage.
//
// The kernel can say whose mount stands at a path when there is no record of it: plugin/model/volume_mount.h.
//
// Staging directories are the orchestrator's, who makes them, unstages and removes them. One that does neither (Docker
// Swarm) leaves them to this class: StagingBy::kPlugin.
//
// Calls for one volume, and for one path, wait for each other; others never do.
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

  // Set where a task gets it as it is: then the path is a target.
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
  std::optional<Propagation> propagation = std::nullopt;  // none: the volume's, and where it has none, the plugin's
};

struct ExpandSpec {
  std::string volume_id;
  std::string volume_path;
  std::uint64_t required_bytes = 0;  // 0: whatever the volume has
  std::uint64_t limit_bytes = 0;     // 0: none
};

struct VolumeStats {
  StatsInfo usage;
  bool is_block = false;
  std::string ailment;  // empty: well
};

class NodeVolumes {
 public:
  // All must outlive it. `volume_locks` is shared with the catalog: a volume is not deleted while it is being staged.
  // `propagation` is that of targets for which neither the request nor the volume names one.
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

  // Unstage and Unpublish, and the id of the volume whose use of the path ended: another one than `volume_id` where
  // that is unknown. Empty: no volume of ours was there.
  absl::StatusOr<std::string> EndStage(const std::string& volume_id, const std::string& staging_path, const Call& call);
  absl::StatusOr<std::string> EndPublish(const std::string& volume_id, const std::string& target_path,
                                         const Call& call);

  // Mounted at the target itself, with no staging path; else as Publish. Only for filesystems that can be written.
  absl::Status PublishAlone(const PublishSpec& spec, const Call& call);
  absl::StatusOr<std::vector<std::string>> LivePaths(const std::string& volume_id);  // where it is staged or published

  // The commands that unpublish and unstage the volume at all its paths on this host, in this order, for an error that
  // says it is in use: the orchestrator may have forgotten it. Empty where there is no such path.
  std::string CommandsToFree(const std::string& volume_id);

  absl::StatusOr<VolumeStats> Stats(const std::string& volume_id, const std::string& volume_path);
  absl::StatusOr<std::uint64_t> Expand(const ExpandSpec& spec, const Call& call);  // the capacity in bytes
  absl::Status CheckIsAt(const std::string& volume_id, const std::string& path);  // NOT_FOUND: no such volume, or there

  // For a change of the volume's settings, under its lock: all its devices and mounts here get them at once. Mounts in
  // other namespaces are copies with flags of their own.
  absl::Status Tune(const NodeVolume& volume);

  // What ails the filesystems of these volumes, as far as they are in use here, by volume. Those that are well, or not
  // mounted, are not in it. It takes little more than two seconds, whatever hangs.
  using Ailments = std::map<std::string, std::string>;
  absl::StatusOr<Ailments> FindAilments(const std::set<std::string>& volume_ids);

  // Ends the waiting for paths; the volumes' locks are whoever's gave them.
  void Stop() { path_locks_.Stop(); }

  // Puts records and kernel together: once, before the first call. Forgets records of mounts that are gone, adopts
  // mounts without a record, detaches block devices that nothing uses. Where it is the plugin that unstages: ends what
  // is staged and has no target, for a Stage whose caller has gone is ended by nobody.
  absl::Status Reconcile();

 private:
  struct Hold {
    KeyedLocks::Hold volume;
    KeyedLocks::Hold path;
  };
  absl::StatusOr<Hold> Acquire(const std::string& volume_id, const std::string& path, const Call& call);

  // The path, to end the use that is made of it there, and the volume whose use that is (see CheckOwner).
  struct Ending {
    Hold hold;
    PathInfo place;
    std::optional<VolumeUse> known;
    std::string owner;  // empty: no volume of ours
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
  absl::StatusOr<bool> IsMountedElsewhere(const StageSpec& spec);  // as far as the records know
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
    std::string options;  // the filesystem's, as it was staged
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
  std::string RoomAilment(const std::string& volume_id, const std::string& fs_type, const StatsInfo& usage);
  std::string RoomUnused(const std::string& volume_id, const std::string& fs_type, const StatsInfo& usage);

  // node_expand.cc
  absl::Status ExpandWithoutDevice(const NodeVolume& volume, const std::string& path);

  // node_volumes.cc
  std::string Owner(const PathInfo& info);  // OwnerOf it, or of the device that it is on or is
  struct Place {
    std::string path;  // what to ask for figures: the path itself, or the device that is staged there
    PathInfo info;
  };
  absl::StatusOr<Place> FindVolumeAt(const std::string& volume_id, const std::string& path);
  absl::Status CheckOwner(const std::string& volume_id, const std::string& path, const std::string& owner);
  absl::Status CheckMount(const std::string& volume_id, const std::string& path, const PathInfo& info);
  absl::Status TakeDown(const std::string& volume_id, const std::string& path, PathInfo info, bool remove_target);
  absl::Status CheckNoVolumeBelow(const std::string& volume_id, const std::string& path, const MountInfo& info);
  absl::Status TakeDownBelow(const std::string& volume_id, const std::string& path, const absl::Status& refused);
  absl::Status ReleaseDevices(const std::string& volume_id, const std::string& gone = "");
  absl::Status DetachUnbound(const std::string& volume_id, const std::vector<LoopInfo>& loops,
                             const std::vector<MountInfo>& mounts, bool needed);
  absl::Status ForgetAdopted(const std::vector<VolumeUse>& uses, const std::vector<MountInfo>& mounts);
  absl::Status Record(const VolumeUse& use);
  absl::Status Forget(const std::string& path);
  absl::StatusOr<bool> IsLive(const VolumeUse& use);

  // node_tune.cc
  absl::Status TuneMount(const NodeVolume& volume, const VolumeUse& use);
  absl::Status TuneDevice(const NodeVolume& volume, const LoopInfo& loop);
  absl::Status TuneDevices(const NodeVolume& volume);

  // node_health.cc
  std::string ImageAilment(const std::string& volume_id, std::uint64_t device_bytes);
  absl::StatusOr<std::string> MountAilment(const VolumeUse& use);
  absl::StatusOr<std::string> BlockTargetAilment(const VolumeUse& use);
  Ailments AilmentsOf(const std::vector<VolumeUse>& uses);

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
  absl::Status Follow(VolumeUse use, const MountInfo& mount);
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

// INVALID_ARGUMENT: the kind of the volume has no block device, no filesystem to name, or no options of one.
absl::Status CheckSuits(const NodeVolume& volume, const Capability& capability);

// Of the mount at a staging path, or at the target of a volume that is not staged. What tasks mount below a target
// stays out of a staging path.
MountFlags StagedFlags(const StageSpec& spec, const NodeVolume& volume);
Propagation StagedPropagation(const StageSpec& spec);
VolumeUse StagedUse(const StageSpec& spec);  // not done

// The options by which a volume of memory is mounted, and changed.
std::vector<FilesystemOption> MemoryOptions(std::uint64_t bytes);

// Whether a block target is a device node that is its volume's no more, but that of `owner`, or nobody's: its loop
// device was freed by somebody else.
bool IsStrayNode(const VolumeUse& use, const PathInfo& place, const std::string& owner);

// Whether a mount has this propagation still. A slave may have lost whom it received from, or never had anybody.
bool HasPropagation(const MountInfo& info, Propagation propagation);

// DEADLINE_EXCEEDED where one of the volume's devices does not answer.
absl::Status CheckNoneHangs(const std::string& volume_id, const std::vector<LoopInfo>& loops);

// `held`: the outcome of an attempt to hold the volume's devices open.
void WarnIfNotHeld(const std::string& volume_id, const absl::Status& held);

std::string FullnessOf(const StatsInfo& usage);  // a sentence where 95 % of the bytes or inodes are used, else empty

}  // namespace mooring

#endif  // MOORING_PLUGIN_NODE_NODE_VOLUMES_H_
