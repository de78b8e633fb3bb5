#include <fmt/format.h>

#include "base/quote.h"
#include "base/status.h"
#include "plugin/node_volumes.h"

namespace mooring {

// No lock: figures of a volume that hangs must not hold up its unpublish, nor the other way round.
absl::StatusOr<VolumeStats> NodeVolumes::Stats(const std::string& volume_id, const std::string& volume_path) {
  MOORING_ASSIGN_OR_RETURN(const PathInfo info, mounter_.Find(volume_path));
  if (!info.mount || OwnerOf(info) != volume_id) {
    return NotFound(fmt::format("volume {} is not at {}", Quote(volume_id), Quote(volume_path)));
  }
  VolumeStats stats;
  stats.is_block = info.kind == PathInfo::Kind::kBlockDevice;
  MOORING_ASSIGN_OR_RETURN(stats.usage, mounter_.Stats(volume_path));
  if (stats.is_block) return stats;
  MOORING_ASSIGN_OR_RETURN(stats.ailment, mounter_.Ailment(volume_path));
  return stats;
}

}  // namespace mooring
