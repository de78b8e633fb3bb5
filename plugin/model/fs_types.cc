#include "plugin/model/fs_types.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/status.h"
#include "mounter/mount_options.h"

namespace mooring {
namespace {

constexpr std::array<std::string_view, 3> kMadeHere = {"ext4", "xfs", "btrfs"};

// Set once, before the first request.
std::vector<std::string>& Others() {
  static std::vector<std::string> others;
  return others;
}

bool IsName(std::string_view text) {
  const auto fits = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-'; };
  constexpr std::size_t kLongest = 32;
  return !text.empty() && text.size() <= kLongest && text.front() != '-' && std::all_of(text.begin(), text.end(), fits);
}

}  // namespace

bool IsMadeHere(std::string_view fs_type) {
  return std::find(kMadeHere.begin(), kMadeHere.end(), fs_type) != kMadeHere.end();
}

absl::Status CheckOtherFsType(const std::string& fs_type) {
  if (IsMadeHere(fs_type)) return InvalidArgument("each pool of images or devices has it: leave it out");
  if (!IsName(fs_type)) return InvalidArgument("give the name of a filesystem, as /proc/filesystems has it: vfat");
  if (fs_type == "tmpfs" || fs_type.starts_with("fuse") || fs_type == "overlay" || fs_type.starts_with("nfs")) {
    return InvalidArgument("it is not the filesystem of a disk that the kernel mounts alone");
  }
  return absl::OkStatus();
}

void AllowOtherFsTypes(std::vector<std::string> fs_types) { Others() = std::move(fs_types); }

bool IsOtherFsType(std::string_view fs_type) {
  return std::find(Others().begin(), Others().end(), fs_type) != Others().end();
}

std::string OtherFsTypeFor(std::string_view filesystem) {
  const auto found = std::find_if(Others().begin(), Others().end(),
                                  [&](const std::string& driver) { return IsDriverOf(driver, filesystem); });
  return found == Others().end() ? "" : *found;
}

bool IsSupportedFsType(std::string_view fs_type) { return IsMadeHere(fs_type) || IsOtherFsType(fs_type); }

std::string SupportedFsTypes() {
  std::vector<std::string> all(kMadeHere.begin(), kMadeHere.end());
  all.insert(all.end(), Others().begin(), Others().end());
  return fmt::format("{}", fmt::join(all, ", "));
}

}  // namespace mooring
