// The size of a volume for a requested size. All sizes are bytes.
#pragma once

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
inline constexpr std::uint64_t kDefaultVolumeBytes = kGiB;  // if the request has no size
inline constexpr std::uint64_t kLargestVolumeBytes = 16 * kTiB - 4096;  // the largest file ext4 can hold

// Linux grows and shrinks an existing btrfs to no smaller size.
inline constexpr std::uint64_t kSmallestGrownBtrfs = 256 * kMiB;

// The requested size: at least `required`, and at most `limit` if that is not 0.
struct SizeRange {
  std::uint64_t required = 0;
  std::uint64_t limit = 0;
};

// The smallest volume for this use: the filesystem's journal and metadata must fit (mkfs.xfs refuses less than 300 MiB,
// mkfs.btrfs less than 109 MiB).
std::uint64_t MinimumBytes(AccessType type, std::string_view fs_type);

// The size of a new volume: `required` rounded up to the granularity, at least `minimum`. OUT_OF_RANGE: `limit` is
// smaller, or the size is larger than kLargestVolumeBytes.
absl::StatusOr<std::uint64_t> ChooseSize(const SizeRange& range, std::uint64_t minimum);

// The new size of a volume of `current` bytes; it is never smaller. OUT_OF_RANGE as above.
absl::StatusOr<std::uint64_t> ChooseGrownSize(const SizeRange& range, std::uint64_t current);

// OUT_OF_RANGE: a filesystem of `from` bytes cannot be grown to `to`.
absl::Status CheckCanGrow(std::string_view fs_type, std::uint64_t from, std::uint64_t to);

bool Satisfies(std::uint64_t bytes, const SizeRange& range);

std::string RangeText(const SizeRange& range);  // "1 GiB to 2 GiB", "at least 1 GiB", "at most 2 GiB", "any size"

}  // namespace mooring
