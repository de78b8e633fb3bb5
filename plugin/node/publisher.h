// Publishes a staged volume at a target: binds the staging path, or the device node of a raw volume.
//
// A mount that is at the target already is compared with the request. The record of the mount
// decides, even if the volume is not staged any more. Without a record the mount itself decides.
//
// It keeps no state. NodeVolumes calls it, and holds the locks of the volume and of the target.
// FAILED_PRECONDITION: the volume is not staged, or the target is in use. ALREADY_EXISTS: it is published there in
// another way. INVALID_ARGUMENT: the kind of volume or the request does not allow it.
#pragma once

#include <optional>
#include <string>

#include "plugin/node/stage/stager.h"

namespace mooring {

struct PublishSpec {
  std::string volume_id;
  std::string staging_path;  // empty: FAILED_PRECONDITION
  std::string target_path;
  Capability capability;
  bool read_only = false;
  std::optional<Propagation> propagation = std::nullopt;  // none: that of the volume, or else of the plugin
  std::string passphrase = {};                            // as in StageSpec; only for NodeVolumes::PublishAlone
};

class Publisher {
 public:
  // `propagation`: of targets for which neither the request nor the volume has one.
  Publisher(Mounter& mounter, VolumeSource& source, NodeStore& store, VolumeFinder& finder, VolumeDevices& devices,
            Stager& stager, Propagation propagation)
      : mounter_(mounter),
        source_(source),
        store_(store),
        finder_(finder),
        devices_(devices),
        stager_(stager),
        propagation_(propagation) {}

  absl::Status Publish(const PublishSpec& spec, const NodeVolume& volume);

  // Without a staging path: the volume is mounted at the target. Only for writable filesystems.
  absl::Status PublishAlone(const PublishSpec& spec, const NodeVolume& volume);

 private:
  struct Plan {
    BindRequest bind;
    std::string options;  // of the staged filesystem
  };
  absl::StatusOr<bool> PublishByRecord(const PublishSpec& spec, const NodeVolume& volume);
  BindRequest RequestFor(const PublishSpec& spec, const NodeVolume& volume) const;
  absl::StatusOr<Plan> PlanFilesystem(const PublishSpec& spec, const NodeVolume& volume);
  absl::StatusOr<Plan> PlanBlock(const PublishSpec& spec, const NodeVolume& volume);
  absl::StatusOr<std::string> StagedDevice(const PublishSpec& spec, const NodeVolume& volume,
                                           const std::optional<VolumeUse>& staged);
  absl::Status CheckMayBeShared(const PublishSpec& spec, const BindRequest& bind) const;
  absl::Status CheckOtherTargets(const PublishSpec& spec);
  absl::Status CheckReadersOrWriters(const PublishSpec& spec, bool read_only);
  absl::Status NoteRawUse(const NodeVolume& volume, bool read_only);
  absl::Status CheckSameDevice(const NodeVolume& volume);
  absl::Status BindPlanned(const PublishSpec& spec, const NodeVolume& volume, const Plan& plan);
  absl::Status CheckPublishedAlike(const PublishSpec& spec, const NodeVolume& volume, const PathInfo& target);
  absl::Status SetPropagationAgain(const PublishSpec& spec, Propagation propagation);
  absl::Status CheckIdsMapped(const PublishSpec& spec, const NodeVolume& volume);
  absl::Status CheckPropagation(const PublishSpec& spec, Propagation propagation);
  absl::Status AdoptTarget(const PublishSpec& spec, const NodeVolume& volume, const PathInfo& target);
  Propagation PropagationFor(const PublishSpec& spec) const { return spec.propagation.value_or(propagation_); }

  Mounter& mounter_;
  VolumeSource& source_;
  NodeStore& store_;
  VolumeFinder& finder_;
  VolumeDevices& devices_;
  Stager& stager_;
  const Propagation propagation_;
};

}  // namespace mooring
