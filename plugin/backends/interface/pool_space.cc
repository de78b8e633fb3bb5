#include "plugin/backends/interface/pool_space.h"

#include <fmt/format.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>

#include "base/status.h"
#include "base/text/quote.h"
#include "plugin/model/volume_size.h"

namespace mooring {
namespace {

constexpr std::uint64_t kLeastFreePercent = 5, kLeastFreeBytes = kGiB;  // whichever is less

// Images are sparse. On a full filesystem a write in a volume fails, however empty the volume looks.
std::string ShortageOf(const std::string& directory, std::uint64_t available, std::uint64_t total) {
  if (available >= std::min(total / 100 * kLeastFreePercent, kLeastFreeBytes)) return "";
  return fmt::format(
      "the filesystem of {} is nearly full, with {} MiB of {} MiB left: when it is full, writes to volumes fail; make "
      "room there",
      Quote(directory), available / kMiB, total / kMiB);
}

}  // namespace

absl::StatusOr<BackendCapacity> SpaceIn(const std::string& directory) {
  struct statvfs filesystem = {};
  if (::statvfs(directory.c_str(), &filesystem) != 0) return ErrnoStatus(errno, "ask for the space in", directory);
  const std::uint64_t available = std::uint64_t{filesystem.f_bavail} * filesystem.f_frsize;
  const std::uint64_t usable = available - available % kVolumeGranularity;
  const std::uint64_t total = std::uint64_t{filesystem.f_blocks} * filesystem.f_frsize;
  return BackendCapacity{.total = total,
                         .available = available,
                         .largest_volume = std::min(usable, kLargestVolumeBytes),
                         .shortage = ShortageOf(directory, available, total)};
}

absl::Status CheckSpaceIn(const std::string& directory, std::uint64_t more_bytes) {
  MOORING_ASSIGN_OR_RETURN(const BackendCapacity capacity, SpaceIn(directory));
  if (more_bytes <= capacity.available) return absl::OkStatus();
  return OutOfRange("{} are needed, and the filesystem of {} has {} left: ask for less, or make room there",
                    SizeText(more_bytes), Quote(directory), SizeText(capacity.available));
}

}  // namespace mooring
