#include "base/status.h"
#include "plugin/node/node_volumes.h"

namespace mooring {

// No lock: figures of a volume that hangs must not hold up its unpublish, nor the other way round.
absl::StatusOr<VolumeStats> NodeVolumes::Stats(const std::string& volume_id, const std::string& volume_path) {
  MOORING_ASSIGN_OR_RETURN(const Place place, FindVolumeAt(volume_id, volume_path));
  VolumeStats stats;
  stats.is_block = place.info.kind == PathInfo::Kind::kBlockDevice;
  if (place.info.failure.empty()) {  // else there are no figures to be had
    MOORING_ASSIGN_OR_RETURN(stats.usage, mounter_.Stats(place.path));
  }
  if (!stats.is_block) {
    MOORING_ASSIGN_OR_RETURN(stats.ailment, mounter_.HealthProblem(place.path));
  }
  if (stats.ailment.empty()) stats.ailment = ImageAilment(volume_id, stats.is_block ? stats.usage.bytes.total : 0);
  if (stats.ailment.empty() && !stats.is_block) {
    stats.ailment = RoomAilment(volume_id, place.info.mount->fs_type, stats.usage);
  }
  return stats;
}

}  // namespace mooring
