#include "mounter/other_filesystems.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

namespace mooring {
namespace {

// Left out, among others: f2fs, jfs, reiserfs, erofs and bcachefs, whose superblocks name other devices.
constexpr std::array<std::string_view, 12> kOnOneDevice = {
    "ext2", "ext3", "exfat", "hfs", "hfsplus", "iso9660", "minix", "msdos", "ntfs3", "squashfs", "udf", "vfat",
};

}  // namespace

bool IsOnOneDevice(std::string_view driver) {
  return std::find(kOnOneDevice.begin(), kOnOneDevice.end(), driver) != kOnOneDevice.end();
}

std::string FilesystemsOnOneDevice() { return fmt::format("{}", fmt::join(kOnOneDevice, ", ")); }

bool IsDriverOf(std::string_view driver, std::string_view filesystem) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kOtherNames = {
      {{"ntfs3", "ntfs"}, {"ntfs-3g", "ntfs"}, {"lowntfs-3g", "ntfs"}, {"msdos", "vfat"}}};
  const auto pair = std::pair(driver, filesystem);
  return driver == filesystem || std::find(kOtherNames.begin(), kOtherNames.end(), pair) != kOtherNames.end();
}

}  // namespace mooring
