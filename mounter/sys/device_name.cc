#include "mounter/sys/device_name.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <limits.h>
#include <linux/btrfs.h>
#include <linux/major.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <sstream>

#include "base/file/path.h"
#include "base/file/unique_fd.h"
#include "base/file/whole_file.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "base/text/whole_number.h"
#include "mounter/sys/file_handle.h"

namespace mooring {
namespace {

// "/dev/loop3": its minor number is in its name.
std::optional<dev_t> LoopNamed(std::string_view name) {
  constexpr std::string_view kLoop = "/dev/loop";
  if (!name.starts_with(kLoop)) return std::nullopt;
  const auto number = ParseWhole<unsigned>(name.substr(kLoop.size()));
  return number ? std::optional<dev_t>(makedev(LOOP_MAJOR, *number)) : std::nullopt;
}

// Each kind of filesystem numbers its file handles. This one is FILEID_BTRFS_WITHOUT_PARENT, include/linux/exportfs.h.
constexpr int kBtrfsHandle = 0x4d;

bool IsOnBtrfs(int place) {
  const std::optional<FileHandle> handle = FileHandleOf(place);
  return handle && handle->type == kBtrfsHandle;
}

}  // namespace

std::optional<dev_t> DeviceNamed(std::string_view name) {
  if (const std::optional<dev_t> loop = LoopNamed(name)) return loop;
  struct stat status = {};
  if (!IsBelow(name, "/dev") || ::stat(std::string(name).c_str(), &status) != 0) return std::nullopt;
  return S_ISBLK(status.st_mode) ? std::optional<dev_t>(status.st_rdev) : std::nullopt;
}

std::string BlockDeviceName(dev_t device) {
  std::array<char, PATH_MAX> place = {};
  const std::string link = fmt::format("/sys/dev/block/{}:{}", major(device), minor(device));
  const ssize_t size = ::readlink(link.c_str(), place.data(), place.size());
  return size < 0 ? "" : std::string(NameOf(std::string_view(place.data(), static_cast<std::size_t>(size))));
}

std::optional<dev_t> BlockDeviceNumber(const std::string& name) {
  const std::string text = FirstLine("/sys/class/block/" + name + "/dev");
  const std::size_t colon = std::min(text.find(':'), text.size());
  const auto higher = ParseWhole<unsigned>(std::string_view(text).substr(0, colon));
  const auto lower = ParseWhole<unsigned>(std::string_view(text).substr(std::min(colon + 1, text.size())));
  return higher && lower ? std::optional<dev_t>(makedev(*higher, *lower)) : std::nullopt;
}

absl::StatusOr<std::uint64_t> BlockDeviceBytes(dev_t device) {
  constexpr std::uint64_t kSector = 512;  // the unit of sysfs, for all devices
  const std::string path = fmt::format("/sys/dev/block/{}:{}/size", major(device), minor(device));
  MOORING_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(path));
  std::uint64_t sectors = 0;
  if (std::istringstream(text) >> sectors) return sectors * kSector;
  return Internal("{} is no number", Quote(path));
}

std::optional<dev_t> BtrfsDeviceOf(int place) {
  if (!IsOnBtrfs(place)) return std::nullopt;
  const UniqueFd directory(::openat(place, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  btrfs_ioctl_fs_info_args filesystem = {};
  if (!directory.ok() || ::ioctl(directory.get(), BTRFS_IOC_FS_INFO, &filesystem) != 0) return std::nullopt;
  if (filesystem.num_devices != 1) return std::nullopt;
  btrfs_ioctl_dev_info_args device = {};
  device.devid = filesystem.max_id;
  if (::ioctl(directory.get(), BTRFS_IOC_DEV_INFO, &device) != 0) return std::nullopt;
  const char* const name = reinterpret_cast<const char*>(device.path);
  return DeviceNamed(std::string_view(name, ::strnlen(name, sizeof(device.path))));
}

}  // namespace mooring
