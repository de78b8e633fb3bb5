#include "mounter/table/mount_without_table.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#include <cerrno>

#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/loop/loop_mounted.h"
#include "mounter/sys/btrfs_device.h"
#include "mounter/sys/device_name.h"
#include "mounter/sys/syscalls.h"
#include "mounter/table/known_memory.h"

namespace mooring {
namespace {

// The filesystem on a device. The type comes from sysfs, because statfs(2) asks the server of a filesystem that has
// one, which may hang.
absl::StatusOr<std::string> TypeOn(dev_t device) {
  const std::string name = BlockDeviceName(device);
  return name.empty() ? std::string() : MountedType(name);
}

// Sets the type of a directory's filesystem, its device, and what names the volume. Leaves the type empty if it does
// not belong to a volume.
absl::Status DescribeDirectory(const UniqueFd& place, const SourcePolicy& sources, MountInfo& info) {
  if (std::optional<std::string> source = RecallMemory(place)) {
    info.fs_type = "tmpfs";
    info.root = "/";
    info.source = *std::move(source);
    return absl::OkStatus();
  }
  // The number of a btrfs is not that of its device.
  const std::optional<dev_t> below_btrfs = major(info.device) == 0 ? BtrfsDeviceOf(place.get()) : std::nullopt;
  if (major(info.device) == 0 && !below_btrfs) return absl::OkStatus();
  if (below_btrfs) info.device = *below_btrfs;
  if (!sources.IsVolumeDevice(info.device)) {
    info.root = sources.VolumeDirectoryName(place);
    if (info.root.empty()) return absl::OkStatus();
  }
  MOORING_ASSIGN_OR_RETURN(info.fs_type, below_btrfs ? absl::StatusOr<std::string>("btrfs") : TypeOn(info.device));
  return absl::OkStatus();
}

// statfs(2) does not say whether the mount is read-only, or its superblock, or both. If a copy of the mount becomes
// writable, it is the mount alone.
bool HasWritableSuperblock(const UniqueFd& place) {
  const UniqueFd copy(
      ::open_tree(place.get(), "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | static_cast<unsigned>(AT_EMPTY_PATH)));
  mount_attr writable = {};
  writable.attr_clr = MOUNT_ATTR_RDONLY;
  struct statfs status = {};
  return copy.ok() && ::mount_setattr(copy.get(), "", AT_EMPTY_PATH, &writable, sizeof(writable)) == 0 &&
         ::fstatfs(copy.get(), &status) == 0 && (static_cast<std::uint64_t>(status.f_flags) & ST_RDONLY) == 0;
}

}  // namespace

absl::StatusOr<std::optional<MountInfo>> MountWithoutTable(const UniqueFd& place, const std::string& path,
                                                           const SourcePolicy& sources) {
  struct statx status = {};
  const int flags = AT_EMPTY_PATH | AT_STATX_DONT_SYNC;
  if (::statx(place.get(), "", flags, STATX_TYPE | sys::kStatxMntId, &status) != 0) {
    return ErrnoStatus(errno, "inspect", path);
  }
  if ((status.stx_attributes & sys::kStatxAttrMountRoot) == 0) return NotFound("nothing is mounted at {}", Quote(path));
  MountInfo info;
  info.id = status.stx_mnt_id;
  info.target = path;
  info.device = makedev(status.stx_dev_major, status.stx_dev_minor);
  if (S_ISBLK(status.stx_mode)) {
    if (sources.IsVolumeDevice(makedev(status.stx_rdev_major, status.stx_rdev_minor))) info.fs_type = "devtmpfs";
  } else if (S_ISDIR(status.stx_mode)) {
    MOORING_RETURN_IF_ERROR(DescribeDirectory(place, sources, info));
  }
  struct statfs filesystem = {};
  if (info.fs_type.empty() || ::fstatfs(place.get(), &filesystem) != 0) return std::optional<MountInfo>();
  info.flags = FlagsOfStatfs(static_cast<std::uint64_t>(filesystem.f_flags));
  if (info.flags.read_only && !HasWritableSuperblock(place)) return std::optional<MountInfo>();
  return info;
}

}  // namespace mooring
