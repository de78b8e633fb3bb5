#include <fmt/format.h>

#include "base/quote.h"
#include "base/status.h"
#include "plugin/node_volumes.h"

namespace mooring {

// No lock: figures of a volume that hangs must not hold up its unpublish, nor the other way round.
absl::StatusOr<VolumeStats> NodeVolumes::Stats(const std::string& volume_id, const std::string& volume_path) {
  MOORING_ASSIGN_OR_RETURN(const Place place, FindVolumeAt(volume_id, volume_path));
  VolumeStats stats;
  stats.is_block = place.info.kind == PathInfo::Kind::kBlockDevice;
  if (place.info.failure.empty()) {  // else there are no figures to be had
    MOORING_ASSIGN_OR_RETURN(stats.usage, mounter_.Stats(place.path));
  }
  if (stats.is_block) {
    stats.ailment = BlockAilment(volume_id, stats.usage.bytes.total);
  } else {
    MOORING_ASSIGN_OR_RETURN(stats.ailment, mounter_.Ailment(place.path));
  }
  return stats;
}

// Nothing but the image can be looked at behind a raw device.
std::string NodeVolumes::BlockAilment(const std::string& volume_id, std::uint64_t device_bytes) {
  const absl::StatusOr<NodeVolume> volume = source_.Find(volume_id);
  if (!volume.ok()) return Message(volume.status());
  if (volume->bytes >= device_bytes) return "";
  return fmt::format("its image {} is cut short: {} bytes of {}", Quote(volume->path), volume->bytes, device_bytes);
}

}  // namespace mooring
