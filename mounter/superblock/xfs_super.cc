#include "mounter/superblock/xfs_super.h"

#include "base/status.h"
#include "mounter/superblock/raw_super.h"

namespace mooring {
namespace {

constexpr SuperLayout kLayout = {.filesystem = "an xfs", .bytes = 264, .magic_at = 0, .magic = "XFSB"};
constexpr std::size_t kBlockBytesAt = 4, kBlocksAt = 8, kRealtimeBlocksAt = 16, kRealtimeExtentsAt = 24, kUuidAt = 32,
                      kLogStartAt = 48, kVersionAt = 100, kQuotaFlagsAt = 176, kIncompatAt = 216;
constexpr std::uint16_t kVersionMask = 0xF, kVersion5 = 5;

}  // namespace

absl::StatusOr<XfsSuper> ReadXfsSuper(int fd, const std::string& path) {
  MOORING_ASSIGN_OR_RETURN(const std::string super, ReadSuper(fd, path, kLayout, 0));
  const bool has_features = (LoadBig<std::uint16_t>(super, kVersionAt) & kVersionMask) == kVersion5;
  return XfsSuper{.uuid = super.substr(kUuidAt, kUuidBytes),
                  .bytes = LoadBig<std::uint64_t>(super, kBlocksAt) * LoadBig<std::uint32_t>(super, kBlockBytesAt),
                  .realtime_blocks = LoadBig<std::uint64_t>(super, kRealtimeBlocksAt),
                  .realtime_extents = LoadBig<std::uint64_t>(super, kRealtimeExtentsAt),
                  .log_start = LoadBig<std::uint64_t>(super, kLogStartAt),
                  .quota_flags = LoadBig<std::uint16_t>(super, kQuotaFlagsAt),
                  .incompat = has_features ? LoadBig<std::uint32_t>(super, kIncompatAt) : 0};
}

}  // namespace mooring
