#include "base/status.h"
#include "plugin/node/node_volumes.h"

namespace mooring {

// It takes no lock, so that a hanging filesystem does not block its Unpublish.
absl::StatusOr<VolumeStats> NodeVolumes::Stats(const std::string& volume_id, const std::string& volume_path) {
  MOORING_ASSIGN_OR_RETURN(const Place place, FindVolumeAt(volume_id, volume_path));
  VolumeStats stats;
  stats.is_block = place.info.kind == PathInfo::Kind::kBlockDevice;
  if (place.info.failure.empty()) {  // a filesystem that does not answer has no statistics
    MOORING_ASSIGN_OR_RETURN(stats.usage, mounter_.Stats(place.path));
  }
  if (!stats.is_block) {
    MOORING_ASSIGN_OR_RETURN(stats.problem, mounter_.HealthProblem(place.path));
  }
  if (stats.problem.empty()) stats.problem = ImageProblem(volume_id, stats.is_block ? stats.usage.bytes.total : 0);
  if (stats.problem.empty() && !stats.is_block) {
    stats.problem = RoomProblem(volume_id, place.info.mount->fs_type, stats.usage);
  }
  return stats;
}

}  // namespace mooring
