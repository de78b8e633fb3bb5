// Grows filesystems that are smaller than their volumes. A filesystem without damage is usable at its old size. So a
// failed growth appears in the log and in the condition of the volume, and fails no call.
#include <fmt/format.h>

#include "base/log.h"
#include "base/status.h"
#include "plugin/model/volume_size.h"
#include "plugin/node/node_volumes.h"

namespace mooring {
namespace {

// A filesystem may leave this much of its device unused, because another block or allocation group would not fit.
constexpr std::uint64_t kLittle = 8 * kMiB;

bool MayComeAgain(const absl::Status& status) {
  return absl::IsAborted(status) || absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) ||
         absl::IsCancelled(status);
}

void WarnOf(const NodeVolume& volume, const absl::Status& failed) {
  log::Warning("the filesystem of a volume could not be grown: it stays smaller than the volume",
               {{"volume", volume.id}, {"cause", Message(failed)}});
}

}  // namespace

// FAILED_PRECONDITION for an unmounted filesystem means that it has errors or is in use.
absl::Status NodeVolumes::GrowUnmounted(const NodeVolume& volume, const std::string& fs_type) {
  const absl::Status grown = mounter_.Grow(volume.path, fs_type);
  if (grown.ok() || MayComeAgain(grown) || absl::IsFailedPrecondition(grown)) return grown;
  MOORING_RETURN_IF_ERROR(mounter_.Check(volume.path, fs_type));
  WarnOf(volume, grown);
  return absl::OkStatus();
}

absl::Status NodeVolumes::GrowMounted(const NodeVolume& volume, const std::string& path, const std::string& fs_type) {
  const absl::Status grown = mounter_.Grow(path, fs_type);
  if (grown.ok() || MayComeAgain(grown)) return grown;
  if (absl::IsDataLoss(grown)) {
    return Internal(fmt::format("{}: the filesystem of volume {} is damaged; check it, or restore the volume",
                                Message(grown), volume.id));
  }
  MOORING_ASSIGN_OR_RETURN(const PathInfo place, mounter_.Find(path));
  if (!place.mount || !place.failure.empty() || place.mount->superblock_read_only) return grown;
  WarnOf(volume, grown);
  return absl::OkStatus();
}

// A sentence for the condition of the volume. The owner of a block device chose the size of its filesystem.
std::string NodeVolumes::RoomUnused(const std::string& volume_id, const std::string& fs_type, const StatsInfo& usage) {
  if (usage.unused_bytes < kLittle) return "";
  const absl::StatusOr<NodeVolume> volume = source_.Find(volume_id);
  if (!volume.ok() || StagingOf(*volume) != Staging::kLoopDevice) return "";
  const bool too_small = fs_type == "btrfs" && volume->bytes < kSmallestGrownBtrfs;
  return fmt::format(
      "its {} filesystem is {} MiB smaller than the volume and could not be grown: {}", fs_type,
      usage.unused_bytes / kMiB,
      too_small
          ? fmt::format("Linux gives no btrfs a size below {}: expand the volume to that",
                        SizeText(kSmallestGrownBtrfs))
          : "unpublish and unstage the volume, so that the next stage tries again; the plugin's log has the cause");
}

std::string NodeVolumes::RoomProblem(const std::string& volume_id, const std::string& fs_type, const StatsInfo& usage) {
  const std::string unused = RoomUnused(volume_id, fs_type, usage), full = FullnessOf(usage);
  return unused + (unused.empty() || full.empty() ? "" : "; ") + full;
}

}  // namespace mooring
