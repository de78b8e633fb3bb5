// Compares records and mounts, once, before the first call. It deletes records of mounts that do not exist, adopts
// mounts without a record, holds block devices open and detaches unused ones. It closes the mappings of encrypted
// volumes without a raw use, which a killed process may have left open. With StagingBy::kPlugin it unstages volumes
// without a target: no other call would end a Stage whose caller has gone.
//
// It keeps no state, and takes the locks without waiting: a volume that another process has locked is left to it.
// Problems of a volume are logged and skipped, so that no volume, not even a hanging one, delays the others.
// NodeVolumes calls it.
#pragma once

#include <string>
#include <vector>

#include "plugin/node/volume_teardown.h"

namespace mooring {

class NodeReconciler {
 public:
  NodeReconciler(Mounter& mounter, VolumeSource& source, NodeStore& store, VolumeFinder& finder, VolumeDevices& devices,
                 NodeLocks& locks, VolumeTeardown& teardown, StagingBy staging_by)
      : mounter_(mounter),
        source_(source),
        store_(store),
        finder_(finder),
        devices_(devices),
        locks_(locks),
        teardown_(teardown),
        staging_by_(staging_by) {}

  // Fails if mounts, devices or records cannot be listed. The caller repeats it.
  absl::Status Reconcile();

 private:
  struct Listing {
    std::vector<ListedMount> mounts;
    std::vector<LoopInfo> loops;
    std::vector<KnownDevice> devices;
  };
  absl::Status DropStale(const Listing& listing);
  absl::Status DropIfStale(const VolumeUse& use);

  struct Found {
    std::vector<VolumeUse> mounted;
    bool has_block_device = false;  // a raw device or a mapping, which may be unused
  };
  void ReconcileVolumes(const Listing& listing);
  absl::Status ReconcileVolume(const std::string& volume_id, const Found& found);
  absl::Status Adopt(const std::vector<VolumeUse>& found);

  absl::Status HoldBlockDevices();
  absl::Status HoldDevicesOf(const std::string& volume_id, const std::vector<LoopInfo>& loops);
  absl::Status UnstageAllUnused();

  Mounter& mounter_;
  VolumeSource& source_;
  NodeStore& store_;
  VolumeFinder& finder_;
  VolumeDevices& devices_;
  NodeLocks& locks_;
  VolumeTeardown& teardown_;
  const StagingBy staging_by_;
};

}  // namespace mooring
