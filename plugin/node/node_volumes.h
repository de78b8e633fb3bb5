// Stages, publishes, unpublishes and unstages volumes on this node, through a Mounter. It does not know gRPC.
//
//            Stage                     Publish (bind, or the device node)
//   created ───────▶ staged at path(s) ─────────────────────────────▶ published at target(s)
//           ◀───────                   ◀─────────────────────────────
//            Unstage                   Unpublish
//
// NodeVolumes owns the objects that do this. It takes the locks of the volume and of the path, looks the volume up, and
// calls one object. It expands volumes itself. VolumeTeardown and NodeReconciler take the locks by themselves. Calls
// that change nothing take none.
//
//   NodeVolumes ─┬─▶ NodeReconciler ──▶ VolumeTeardown                   at the start
//                ├─▶ VolumeTeardown ──▶ VolumeUnmounter                  Unstage, Unpublish
//                ├─▶ Encryption ──────▶ Stager, Publisher                Stage, PublishAlone: opens and closes
//                ├─▶ Publisher ───────▶ Stager                           Publish, PublishAlone
//                ├─▶ Stager ──────────▶ LoopStager, FilesystemStager     Stage
//                ├─▶ VolumeHealth                                        Stats, FindProblems
//                ├─▶ VolumeTuner                                         Tune
//                └─▶ NodeLocks                                           the locks of paths
//
// They share the objects in uses/: VolumeFinder (the volume at a path), VolumeDevices (its loop devices and its
// mapping) and NodeStore (the records).
//
// How a volume is mounted depends on Staging (plugin/model/backend_traits.h); the headers of stage/ explain it. The
// kernel knows which volume is mounted at a path without a record: plugin/model/volume_mount.h.
//
// Orchestrators create staging directories, and unstage and remove them. For orchestrators that do not (Docker Swarm),
// the plugin does it: StagingBy::kPlugin.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "plugin/model/volume_size.h"
#include "plugin/node/node_locks.h"
#include "plugin/node/node_reconciler.h"
#include "plugin/node/publisher.h"
#include "plugin/node/uses/encryption.h"
#include "plugin/node/volume_health.h"
#include "plugin/node/volume_teardown.h"

namespace mooring {

struct ExpandSpec {
  std::string volume_id;
  std::string volume_path;
  SizeRange range = {};  // required 0: the size of the volume
};

class NodeVolumes {
 public:
  // All references must outlive it. `volume_locks` is shared with the catalog, so no volume is deleted while it is
  // staged. `propagation`: of targets for which neither the request nor the volume has one.
  NodeVolumes(Mounter& mounter, VolumeSource& source, NodeStore& store, KeyedLocks& volume_locks,
              Propagation propagation = Propagation::kInherit, StagingBy staging_by = StagingBy::kOrchestrator);

  // A wrong passphrase is refused even if the volume is staged there (uses/encryption.h).
  absl::Status Stage(const StageSpec& spec, const Call& call);
  absl::Status Publish(const PublishSpec& spec, const Call& call);

  // Publish without a staging path: the volume is mounted at the target. Only for writable filesystems.
  absl::Status PublishAlone(const PublishSpec& spec, const Call& call);

  // Both return the id of the volume which was at the path. It differs from `volume_id` if the latter is unknown.
  // Empty: no volume of this plugin was there.
  absl::StatusOr<std::string> Unstage(const std::string& volume_id, const std::string& staging_path, const Call& call) {
    return EndedUse(volume_id, teardown_.Unstage(volume_id, staging_path, call));
  }
  absl::StatusOr<std::string> Unpublish(const std::string& volume_id, const std::string& target_path,
                                        const Call& call) {
    return EndedUse(volume_id, teardown_.Unpublish(volume_id, target_path, call));
  }

  // Brings the devices and the filesystem to the volume's size, and returns it (CSI 1.12, NodeExpandVolume). NOT_FOUND:
  // the volume is not at the path. OUT_OF_RANGE: the volume itself has another size than is asked for. A failed growth
  // has one of the codes that CSI allows.
  absl::StatusOr<std::uint64_t> Expand(const ExpandSpec& spec, const Call& call);

  // NOT_FOUND: no such volume, or not at the path.
  absl::Status CheckIsAt(const std::string& volume_id, const std::string& path);

  // Where it is staged or published.
  absl::StatusOr<std::vector<std::string>> LivePaths(const std::string& volume_id) {
    return finder_.LivePaths(volume_id);
  }
  absl::StatusOr<bool> HasStagedDevice(const std::string& volume_id) { return finder_.HasStagedDevice(volume_id); }
  std::string CommandsToFree(const std::string& volume_id) { return finder_.CommandsToFree(volume_id); }

  absl::StatusOr<VolumeStats> Stats(const std::string& volume_id, const std::string& volume_path) {
    return health_.Stats(volume_id, volume_path);
  }
  using Problems = VolumeHealth::Problems;
  absl::StatusOr<Problems> FindProblems(const std::set<std::string>& volume_ids) {
    return health_.FindProblems(volume_ids);
  }

  // Applies changed settings of the volume to all its devices and mounts. The caller holds the volume's lock.
  absl::Status Tune(const NodeVolume& volume) { return tuner_.Tune(volume); }

  absl::Status Reconcile() { return reconciler_.Reconcile(); }

  // Ends the waiting for locks of paths. The owner of `volume_locks` ends the waiting for these.
  void Stop() { locks_.Stop(); }

 private:
  // Puts the use on record in a shared pool before `mount` makes it, and ends it there if that fails.
  absl::Status WithUse(const std::string& volume_id, const Capability& capability, bool read_only,
                       const std::function<absl::Status()>& mount);
  // The outcome of a call that has unmounted the volume `owner`. Empty: it was unmounted before, and was `asked`.
  absl::StatusOr<std::string> EndedUse(const std::string& asked, absl::StatusOr<std::string> owner);
  void EndUse(const std::string& volume_id, const absl::Status& locked);
  absl::Status Grow(const NodeVolume& volume, const VolumeFinder::Place& place, const std::string& path);

  Mounter& mounter_;
  VolumeSource& source_;
  NodeStore& store_;
  VolumeFinder finder_;
  VolumeDevices devices_;
  Encryption encryption_;
  VolumeTuner tuner_;
  NodeLocks locks_;
  Stager stager_;
  Publisher publisher_;
  VolumeHealth health_;
  VolumeTeardown teardown_;
  NodeReconciler reconciler_;
};

}  // namespace mooring
