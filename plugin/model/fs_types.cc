#include "plugin/model/fs_types.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/status.h"
#include "mounter/other_filesystems.h"

namespace mooring {
namespace {

constexpr std::array<std::string_view, 3> kMadeHere = {"ext4", "xfs", "btrfs"};

// Set once, before the first request.
std::vector<std::string>& Others() {
  static std::vector<std::string> others;
  return others;
}

}  // namespace

bool IsMadeHere(std::string_view fs_type) {
  return std::find(kMadeHere.begin(), kMadeHere.end(), fs_type) != kMadeHere.end();
}

absl::Status CheckOtherFsType(const std::string& fs_type) {
  if (IsMadeHere(fs_type)) return InvalidArgument("each pool of images or devices has it: leave it out");
  if (IsOnOneDevice(fs_type)) return absl::OkStatus();
  return InvalidArgument("a pool of devices may have {}", FilesystemsOnOneDevice());
}

void AllowOtherFsTypes(std::vector<std::string> fs_types) { Others() = std::move(fs_types); }

bool IsOtherFsType(std::string_view fs_type) {
  return std::find(Others().begin(), Others().end(), fs_type) != Others().end();
}

std::string OtherFsTypeFor(std::string_view filesystem, std::string_view asked, std::string_view own) {
  const auto fits = [&](std::string_view driver) { return IsOtherFsType(driver) && IsDriverOf(driver, filesystem); };
  if (!asked.empty()) return std::string(fits(asked) ? asked : "");
  for (const std::string_view driver : {own, filesystem}) {
    if (fits(driver)) return std::string(driver);
  }
  const auto found = std::find_if(Others().begin(), Others().end(), fits);
  return found == Others().end() ? "" : *found;
}

bool IsSupportedFsType(std::string_view fs_type) { return IsMadeHere(fs_type) || IsOtherFsType(fs_type); }

std::string SupportedFsTypes() {
  std::vector<std::string> all(kMadeHere.begin(), kMadeHere.end());
  all.insert(all.end(), Others().begin(), Others().end());
  return fmt::format("{}", fmt::join(all, ", "));
}

}  // namespace mooring
