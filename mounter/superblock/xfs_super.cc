#include "mounter/superblock/xfs_super.h"

#include <endian.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "base/status.h"
#include "base/text/quote.h"

namespace mooring {
namespace {

constexpr std::size_t kSuperBytes = 264;
constexpr std::size_t kRealtimeBlocksAt = 16, kRealtimeExtentsAt = 24, kLogStartAt = 48, kVersionAt = 100,
                      kQuotaFlagsAt = 176, kIncompatAt = 216;
constexpr std::string_view kMagic = "XFSB";
constexpr std::uint16_t kVersionMask = 0xF, kVersion5 = 5;

using Super = std::array<char, kSuperBytes>;

template <typename Number>
Number Load(const Super& super, std::size_t at) {  // as it is stored: big-endian
  Number number = 0;
  std::memcpy(&number, super.data() + at, sizeof(number));
  return number;
}

}  // namespace

absl::StatusOr<XfsSuper> ReadXfsSuper(int fd, const std::string& path) {
  Super super = {};
  const ssize_t got = ::pread(fd, super.data(), super.size(), 0);
  if (got < 0) return ErrnoStatus(errno, "read the superblock of", path);
  if (got != static_cast<ssize_t>(super.size()) || !std::string_view(super.data(), super.size()).starts_with(kMagic)) {
    return FailedPrecondition(fmt::format("{} has no superblock of an xfs at byte 0", Quote(path)));
  }
  const bool has_features = (be16toh(Load<std::uint16_t>(super, kVersionAt)) & kVersionMask) == kVersion5;
  return XfsSuper{.realtime_blocks = be64toh(Load<std::uint64_t>(super, kRealtimeBlocksAt)),
                  .realtime_extents = be64toh(Load<std::uint64_t>(super, kRealtimeExtentsAt)),
                  .log_start = be64toh(Load<std::uint64_t>(super, kLogStartAt)),
                  .quota_flags = be16toh(Load<std::uint16_t>(super, kQuotaFlagsAt)),
                  .incompat = has_features ? be32toh(Load<std::uint32_t>(super, kIncompatAt)) : 0};
}

}  // namespace mooring
