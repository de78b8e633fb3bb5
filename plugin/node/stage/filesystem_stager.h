// A request to stage a volume, and how the filesystem on an image or a block device is staged.
#pragma once

#include <optional>
#include <string>

#include "plugin/model/backend_traits.h"
#include "plugin/model/volume_source.h"
#include "plugin/node/uses/node_store.h"
#include "plugin/node/uses/volume_devices.h"
#include "plugin/node/uses/volume_finder.h"

namespace mooring {

// A request to stage a volume, and the mount and the record that follow from it.
struct StageSpec {
  std::string volume_id;
  std::string staging_path;
  Capability capability;
  bool read_only = false;
  std::string passphrase = {};  // of the call's secrets, for an encrypted volume; empty: they have none

  // Set if the volume is mounted at a target, without a staging path: NodeVolumes::PublishAlone.
  struct AsTarget {
    std::optional<Propagation> asked;
    Propagation propagation = Propagation::kInherit;
  };
  std::optional<AsTarget> as_target = std::nullopt;
};

// The beginning of a record: of a use that is not done.
VolumeUse NewUse(VolumeUse::Role role, const std::string& volume_id, const std::string& path,
                 const Capability& capability);

// For the mount at a staging path, or at a target without a staging path. A staging path is private, so that mounts
// that tasks make below a target do not appear in it.
MountFlags StagedFlags(const StageSpec& spec, const NodeVolume& volume);
Propagation StagedPropagation(const StageSpec& spec);
std::string StagedIdMap(const StageSpec& spec, const NodeVolume& volume);  // targets have that of the volume
VolumeUse StagedUse(const StageSpec& spec);                                // not done

// Stages the filesystem on an image or a block device: formats, checks and grows it, and mounts it. LoopStager and
// Stager use it.
//
// A filesystem without damage is usable at its old size. So a failed growth appears in the log and in the condition of
// the volume, and fails no call.
//
// It keeps no state. The caller holds the locks of the volume and of the path. FAILED_PRECONDITION: the volume holds
// something else than is asked for; it is never formatted again.
class FilesystemStager {
 public:
  FilesystemStager(Mounter& mounter, NodeStore& store, VolumeFinder& finder, VolumeDevices& devices,
                   StagingBy staging_by)
      : mounter_(mounter), store_(store), finder_(finder), devices_(devices), staging_by_(staging_by) {}

  // All mounts of a volume share one superblock with one set of options. FAILED_PRECONDITION: another mount has others.
  absl::Status CheckSameOptions(const StageSpec& spec);

  // `in_use`: the filesystem is mounted elsewhere, so it is neither formatted nor checked nor grown.
  absl::Status Stage(const StageSpec& spec, const NodeVolume& volume, bool in_use);

  // The steps after the mount: grows an xfs or btrfs, and tunes the devices. A filesystem in use has been through them.
  absl::Status Finish(const StageSpec& spec, const NodeVolume& volume, const std::string& fs_type, bool in_use);

 private:
  absl::StatusOr<std::string> Prepare(const StageSpec& spec, const NodeVolume& volume, bool in_use);
  absl::StatusOr<std::string> Format(const NodeVolume& volume, const std::string& asked_type);
  absl::Status CheckAndGrow(const NodeVolume& volume, FilesystemInfo found);
  absl::Status Mount(const StageSpec& spec, const NodeVolume& volume, const std::string& fs_type, bool in_use);
  absl::Status GrowUnmounted(const NodeVolume& volume, const std::string& fs_type);
  absl::Status GrowMounted(const NodeVolume& volume, const std::string& path, const std::string& fs_type);

  Mounter& mounter_;
  NodeStore& store_;
  VolumeFinder& finder_;
  VolumeDevices& devices_;
  const StagingBy staging_by_;
};

}  // namespace mooring
