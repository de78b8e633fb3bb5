#include "mounter/sys/btrfs_device.h"

#include <fcntl.h>
#include <linux/btrfs.h>
#include <sys/ioctl.h>

#include <cstring>
#include <string_view>

#include "base/file/unique_fd.h"
#include "mounter/sys/device_name.h"
#include "mounter/sys/file_handle.h"

namespace mooring {
namespace {

// Each kind of filesystem numbers its file handles. This one is FILEID_BTRFS_WITHOUT_PARENT, include/linux/exportfs.h.
constexpr int kBtrfsHandle = 0x4d;

bool IsOnBtrfs(int place) {
  const std::optional<FileHandle> handle = FileHandleOf(place);
  return handle && handle->type == kBtrfsHandle;
}

}  // namespace

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
