#include "plugin/node/uses/volume_tuner.h"

#include "base/status.h"
#include "plugin/backends/registry.h"

namespace mooring {

absl::Status VolumeTuner::TuneMount(const NodeVolume& volume, const VolumeUse& use) {
  MOORING_ASSIGN_OR_RETURN(const PathInfo place, mounts_.Find(use.path));
  if (!place.mount || finder_.Owner(place) != volume.id || !place.failure.empty()) return absl::OkStatus();
  MountFlags flags = place.mount->flags;
  flags.atime = AtimeIn(use.capability);
  flags = Tuned(flags, volume.tuning);
  if (flags == place.mount->flags) return absl::OkStatus();
  return mounts_.Change({.target = use.path, .flags = flags});
}

absl::Status VolumeTuner::Tune(const NodeVolume& volume) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<VolumeUse> uses, store_.OfVolume(volume.id));
  for (const VolumeUse& use : uses) {
    if (use.access_type == AccessType::kMount) MOORING_RETURN_IF_ERROR(TuneMount(volume, use));
  }
  return TraitsOf(volume.kind).tunes ? devices_.TuneAll(volume) : absl::OkStatus();
}

}  // namespace mooring
