#include "mounter/guard/refusal.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/log.h"
#include "base/status.h"
#include "base/text/quote.h"

namespace mooring {

absl::Status Refuse(const char* reason, const std::string& message) {
  log::Once(log::Level::kWarning, reason, {{"request", message}});
  return FailedPrecondition(message);
}

absl::Status CheckFsType(const std::string& fs_type, const std::vector<std::string>& others) {
  constexpr std::array<std::string_view, 3> kFilesystems = {"ext4", "xfs", "btrfs"};
  if (std::find(kFilesystems.begin(), kFilesystems.end(), fs_type) != kFilesystems.end()) return absl::OkStatus();
  const std::string all =
      others.empty() ? "ext4, xfs and btrfs" : fmt::format("ext4, xfs, btrfs and {}", fmt::join(others, ", "));
  return Refuse("refused a filesystem that no volume has",
                fmt::format("the mount helper handles {} only, not {}", all, Quote(fs_type, 64)));
}

}  // namespace mooring
