// Applies the settings of a volume to its devices and mounts on this node.
#include "base/status.h"
#include "plugin/backends/registry.h"
#include "plugin/node/node_volumes.h"

namespace mooring {

// Changes one mount. Its requested flags hold for settings that the volume does not have.
absl::Status NodeVolumes::TuneMount(const NodeVolume& volume, const VolumeUse& use) {
  MOORING_ASSIGN_OR_RETURN(const PathInfo place, mounter_.Find(use.path));
  if (!place.mount || Owner(place) != volume.id || !place.failure.empty()) return absl::OkStatus();
  MountFlags flags = place.mount->flags;
  flags.atime = AtimeIn(use.capability);
  flags = Tuned(flags, volume.tuning);
  if (flags == place.mount->flags) return absl::OkStatus();
  return mounter_.Change({.target = use.path, .flags = flags});
}

absl::Status NodeVolumes::TuneDevice(const NodeVolume& volume, const LoopInfo& loop) {
  const absl::Status tuned = mounter_.TuneLoop(loop, {.read_ahead_bytes = volume.tuning.read_ahead_bytes});
  return absl::IsFailedPrecondition(tuned) ? absl::OkStatus() : tuned;  // it was unmounted meanwhile
}

absl::Status NodeVolumes::TuneDevices(const NodeVolume& volume) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<LoopInfo> loops, mounter_.FindLoops(""));
  MOORING_RETURN_IF_ERROR(CheckNoneHangs(volume.id, loops));  // a hanging device cannot be changed
  for (const LoopInfo& loop : loops) {
    if (OwnerOf(loop) == volume.id) MOORING_RETURN_IF_ERROR(TuneDevice(volume, loop));
  }
  return absl::OkStatus();
}

absl::Status NodeVolumes::Tune(const NodeVolume& volume) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<VolumeUse> uses, store_.OfVolume(volume.id));
  for (const VolumeUse& use : uses) {
    if (use.access_type == AccessType::kMount) MOORING_RETURN_IF_ERROR(TuneMount(volume, use));
  }
  return TraitsOf(volume.kind).tunes ? TuneDevices(volume) : absl::OkStatus();
}

}  // namespace mooring
