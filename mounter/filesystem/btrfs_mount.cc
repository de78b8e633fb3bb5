#include "mounter/filesystem/btrfs_mount.h"

#include <fmt/format.h>
#include <linux/btrfs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "base/file/path.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/filesystem/filesystem.h"
#include "mounter/sys/device_name.h"

namespace mooring {
namespace {

constexpr std::uint64_t kMostDeviceIds = 4096;

absl::StatusOr<btrfs_ioctl_fs_info_args> FilesystemOf(const UniqueFd& root, const std::string& path) {
  btrfs_ioctl_fs_info_args info = {};
  if (::ioctl(root.get(), BTRFS_IOC_FS_INFO, &info) == 0) return info;
  return ErrnoStatus(errno, "ask which devices has the btrfs at", path);
}

// NOT_FOUND: the filesystem has no device with this id.
absl::StatusOr<btrfs_ioctl_dev_info_args> DeviceOf(const UniqueFd& root, const std::string& path, std::uint64_t id) {
  btrfs_ioctl_dev_info_args info = {};
  info.devid = id;
  if (::ioctl(root.get(), BTRFS_IOC_DEV_INFO, &info) == 0) return info;
  if (errno == ENODEV) return NotFound("the btrfs at {} has no device {}", Quote(path), id);
  return ErrnoStatus(errno, "ask for a device of the btrfs at", path);
}

std::string NameOfDevice(const btrfs_ioctl_dev_info_args& info) {
  const char* const name = reinterpret_cast<const char*>(info.path);
  return std::string(name, ::strnlen(name, sizeof(info.path)));
}

constexpr std::uint64_t kSmallestResized = std::uint64_t{256} << 20U;  // btrfs_ioctl_resize() in fs/btrfs/ioctl.c

absl::Status ResizeError(int result, int error, const std::string& path, std::uint64_t bytes) {
  if (result < 0 && error == EINVAL && bytes < kSmallestResized) {
    return OutOfRange(
        "grow the mounted btrfs at {}: Linux gives no btrfs a size below 256 MiB: expand the volume to that or more",
        Quote(path));
  }
  if (result < 0) return GrowFailure(error, "grow the mounted btrfs at", path);
  return FailedPrecondition(
      "grow the mounted btrfs at {}: another operation on its device (a balance?) is under way: call again when it has "
      "ended",
      Quote(path));
}

}  // namespace

absl::Status CheckBtrfsDevice(const UniqueFd& root, const std::string& path, dev_t number, bool alone) {
  MOORING_ASSIGN_OR_RETURN(const btrfs_ioctl_fs_info_args info, FilesystemOf(root, path));
  if (alone && info.num_devices != 1) {
    return FailedPrecondition("the btrfs in {} is on {} devices", Quote(path), info.num_devices);
  }
  // The image chooses these numbers. It may claim any, and most ids may have no device.
  const std::uint64_t first = info.num_devices == 1 ? info.max_id : 1;
  const std::uint64_t last = info.num_devices == 1 ? info.max_id : std::min<std::uint64_t>(info.max_id, kMostDeviceIds);
  std::uint64_t met = 0;
  for (std::uint64_t id = first; id <= last && met < info.num_devices; ++id) {
    const absl::StatusOr<btrfs_ioctl_dev_info_args> device = DeviceOf(root, path, id);
    if (absl::IsNotFound(device.status())) continue;
    if (!device.ok()) return device.status();
    ++met;
    if (DeviceNamed(NameOfDevice(*device)) == number) return absl::OkStatus();
  }
  return FailedPrecondition("{} became another device while it was mounted", Quote(path));
}

absl::Status GrowBtrfs(const UniqueFd& root, const std::string& path, std::uint64_t bytes) {
  MOORING_ASSIGN_OR_RETURN(const btrfs_ioctl_fs_info_args info, FilesystemOf(root, path));
  if (info.num_devices != 1) {
    return FailedPrecondition("the btrfs at {} is on {} devices: nothing is grown", Quote(path), info.num_devices);
  }
  MOORING_ASSIGN_OR_RETURN(const btrfs_ioctl_dev_info_args device, DeviceOf(root, path, info.max_id));
  if (bytes - bytes % info.sectorsize <= device.total_bytes) return absl::OkStatus();
  btrfs_ioctl_vol_args wanted = {};
  fmt::format_to_n(wanted.name, sizeof(wanted.name) - 1, "{}:max", info.max_id);
  const int result = ::ioctl(root.get(), BTRFS_IOC_RESIZE, &wanted);
  return result == 0 ? absl::OkStatus() : ResizeError(result, errno, path, bytes);
}

absl::StatusOr<std::uint64_t> BtrfsUnusedBytes(const UniqueFd& root, const std::string& path) {
  MOORING_ASSIGN_OR_RETURN(const btrfs_ioctl_fs_info_args info, FilesystemOf(root, path));
  if (info.num_devices != 1) return 0;
  MOORING_ASSIGN_OR_RETURN(const btrfs_ioctl_dev_info_args device, DeviceOf(root, path, info.max_id));
  const std::optional<dev_t> number = DeviceNamed(NameOfDevice(device));
  if (!number) return 0;
  MOORING_ASSIGN_OR_RETURN(const std::uint64_t bytes, BlockDeviceBytes(*number));
  return bytes > device.total_bytes ? bytes - device.total_bytes : 0;
}

absl::StatusOr<std::uint64_t> BtrfsErrors(const UniqueFd& root, const std::string& path) {
  MOORING_ASSIGN_OR_RETURN(const btrfs_ioctl_fs_info_args info, FilesystemOf(root, path));
  btrfs_ioctl_get_dev_stats stats = {};
  stats.devid = info.max_id;
  stats.nr_items = BTRFS_DEV_STAT_VALUES_MAX;
  if (::ioctl(root.get(), BTRFS_IOC_GET_DEV_STATS, &stats) != 0) {
    return ErrnoStatus(errno, "ask for the errors of the btrfs at", path);
  }
  std::uint64_t errors = 0;
  for (const __u64 count : stats.values) errors += count;
  return errors;
}

}  // namespace mooring
