// How large a volume may be, and becomes, for what was asked. Bytes throughout.
#ifndef MOORING_PLUGIN_MODEL_VOLUME_SIZE_H_
#define MOORING_PLUGIN_MODEL_VOLUME_SIZE_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/text/size.h"
#include "plugin/model/capability.h"

namespace mooring {

inline constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
inline constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
inline constexpr std::uint64_t kTiB = std::uint64_t{1} << 40;

inline constexpr std::uint64_t kVolumeGranularity = 4096;   // the block of a filesystem, and of a loop device
inline constexpr std::uint64_t kDefaultVolumeBytes = kGiB;  // where no size is asked for
inline constexpr std::uint64_t kLargestVolumeBytes = 16 * kTiB - 4096;  // the largest file ext4 can hold

// The least size that Linux gives a btrfs that there is.
inline constexpr std::uint64_t kSmallestGrownBtrfs = 256 * kMiB;

// What is asked for: at least `required` and, where that is not 0, at most `limit`.
struct SizeRange {
  std::uint64_t required = 0;
  std::uint64_t limit = 0;
};

// The smallest volume that can be used so: a journal and its metadata have to fit (mkfs.xfs refuses below 300
// MiB, mkfs.btrfs below 109).
std::uint64_t MinimumBytes(AccessType type, std::string_view fs_type);

// The size of a new volume: `required` rounded up to the granularity, at least `minimum`. OUT_OF_RANGE where `limit` is
// in the way or nothing so large can be made.
absl::StatusOr<std::uint64_t> ChooseSize(const SizeRange& range, std::uint64_t minimum);

// The size that a volume of `current` bytes is to have: never smaller. OUT_OF_RANGE as above.
absl::StatusOr<std::uint64_t> ChooseGrownSize(const SizeRange& range, std::uint64_t current);

// OUT_OF_RANGE: a filesystem of `from` bytes is not grown to `to`.
absl::Status CheckCanGrow(std::string_view fs_type, std::uint64_t from, std::uint64_t to);

bool Satisfies(std::uint64_t bytes, const SizeRange& range);

std::string RangeText(const SizeRange& range);  // "1 GiB to 2 GiB", "at least 1 GiB", "at most 2 GiB", "any size"

}  // namespace mooring

#endif  // MOORING_PLUGIN_MODEL_VOLUME_SIZE_H_
