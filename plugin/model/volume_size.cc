#include "plugin/model/volume_size.h"

#include <algorithm>

#include "base/status.h"
#include "plugin/model/backend_traits.h"
#include "plugin/model/fs_types.h"

namespace mooring {
namespace {

constexpr std::uint64_t kSmallestBlock = kMiB;
constexpr std::uint64_t kSmallestSubvolume = kMiB;  // with 64 KiB no file can be made, with 256 KiB a few
constexpr std::uint64_t kSmallestExt4 = 16 * kMiB;
constexpr std::uint64_t kSmallestXfs = 300 * kMiB;
constexpr std::uint64_t kSmallestBtrfs = 109 * kMiB;

std::uint64_t RoundDown(std::uint64_t bytes) { return bytes - bytes % kVolumeGranularity; }
std::uint64_t RoundUp(std::uint64_t bytes) { return RoundDown(bytes + kVolumeGranularity - 1); }

absl::Status CheckLargest(const SizeRange& range) {
  if (range.required <= kLargestVolumeBytes) return absl::OkStatus();
  return OutOfRange("capacity_range: {} are asked for, and the largest volume is {}", SizeText(range.required),
                    SizeText(kLargestVolumeBytes));
}

}  // namespace

std::uint64_t MinimumBytes(AccessType type, std::string_view fs_type) {
  if (type == AccessType::kBlock) return kSmallestBlock;
  if (fs_type == kSubvolumeFsType) return kSmallestSubvolume;
  if (!IsMadeHere(fs_type)) return kVolumeGranularity;  // no filesystem is made for a directory or memory
  if (fs_type == "xfs") return kSmallestXfs;
  return fs_type == "btrfs" ? kSmallestBtrfs : kSmallestExt4;
}

absl::StatusOr<std::uint64_t> ChooseSize(const SizeRange& range, std::uint64_t minimum) {
  MOORING_RETURN_IF_ERROR(CheckLargest(range));
  std::uint64_t bytes = RoundUp(range.required);
  if (range.required == 0) {
    bytes = range.limit == 0 ? kDefaultVolumeBytes : std::min(kDefaultVolumeBytes, RoundDown(range.limit));
  }
  bytes = std::max(bytes, minimum);
  if (range.limit != 0 && bytes > range.limit) {
    return OutOfRange(
        "capacity_range asks for {}: the size that fits is {} (multiples of {} bytes, here at least {}): raise "
        "limit_bytes",
        RangeText(range), SizeText(bytes), kVolumeGranularity, SizeText(minimum));
  }
  return bytes;
}

absl::StatusOr<std::uint64_t> ChooseGrownSize(const SizeRange& range, std::uint64_t current) {
  MOORING_RETURN_IF_ERROR(CheckLargest(range));
  const std::uint64_t bytes = std::max(current, RoundUp(range.required));
  if (range.limit == 0 || bytes <= range.limit) return bytes;
  if (current > range.limit) {
    return OutOfRange("the volume has {} and cannot shrink: limit_bytes is {}", SizeText(current),
                      SizeText(range.limit));
  }
  return OutOfRange("capacity_range asks for {}, and no multiple of {} bytes lies in it: raise limit_bytes",
                    RangeText(range), kVolumeGranularity);
}

absl::Status CheckCanGrow(std::string_view fs_type, std::uint64_t from, std::uint64_t to) {
  if (fs_type != "btrfs" || to <= from || to >= kSmallestGrownBtrfs) return absl::OkStatus();
  return OutOfRange(
      "capacity_range: {} are to become {}, and Linux grows no btrfs to less than {}: ask for that or more",
      SizeText(from), SizeText(to), SizeText(kSmallestGrownBtrfs));
}

bool Satisfies(std::uint64_t bytes, const SizeRange& range) {
  return bytes >= range.required && (range.limit == 0 || bytes <= range.limit);
}

std::string RangeText(const SizeRange& range) {
  if (range.required == 0 && range.limit == 0) return "any size";
  if (range.limit == 0) return "at least " + SizeText(range.required);
  if (range.required == 0) return "at most " + SizeText(range.limit);
  if (range.required == range.limit) return "exactly " + SizeText(range.required);
  return SizeText(range.required) + " to " + SizeText(range.limit);
}

}  // namespace mooring
