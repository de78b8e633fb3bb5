#include "mounter/kernel/inspect.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#include <cerrno>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "base/file/unique_fd.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/loop/loop_device.h"
#include "mounter/loop/loop_mounted.h"
#include "mounter/sys/device_name.h"
#include "mounter/sys/syscalls.h"
#include "mounter/table/known_memory.h"
#include "mounter/table/mount_table.h"

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

// Looks at a single mount without statmount(2), which came with Linux 6.8. It does not read the mount table, which
// takes longer with each mount of the host.
//
// The mount at `path`. `place` is its root, O_PATH. `sources` says what belongs to volumes. It is
//   - a directory of an ext4, xfs or btrfs on the device of a volume, or a bound node of such a device,
//   - the root of a tmpfs that RecallMemory knows, or
//   - a directory volume on an ext4, xfs or btrfs.
// MountInfo::root and MountInfo::source are as the interface says. An ext2 or ext3 counts as an ext4.
//
// Empty: something else is mounted there, or the kernel does not tell enough; then only the table does. NOT_FOUND:
// nothing is mounted there any more.
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

absl::StatusOr<bool> IsEmpty(const Target& target, const Target::Status& status) {
  if (status.kind == PathInfo::Kind::kRegular) return status.size == 0;
  // Does not look into a mount, because its filesystem may hang.
  if (status.kind == PathInfo::Kind::kDirectory && !status.mount_root) return target.IsEmptyDirectory();
  return false;
}

// An open file prevents an unmount. So the table is read with an open file only when this process meets a tmpfs for the
// first time. Else it could remember the source of another tmpfs.
absl::StatusOr<std::optional<MountInfo>> MountByOpening(const Target& target, const SourcePolicy& sources) {
  const UniqueFd place(::open(target.Handle().c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  if (!place.ok()) return ErrnoStatus(errno, "open", target.path());
  MOORING_ASSIGN_OR_RETURN(std::optional<MountInfo> info, MountWithoutTable(place, target.path(), sources));
  if (!info && MayBeMemory(place)) {
    MOORING_ASSIGN_OR_RETURN(info, LookUpMountOf(place, target.path()));
  }
  return info;
}

// Without statmount(2), because of the kernel or a seccomp profile.
absl::StatusOr<MountInfo> MountOnOlderKernel(const Target& target, const Target::Status& status,
                                             const SourcePolicy& sources) {
  if (status.error == 0) {
    MOORING_ASSIGN_OR_RETURN(std::optional<MountInfo> info, MountByOpening(target, sources));
    if (info && !status.unique_id && info->id != status.mount_id) {
      return NotFound("another mount is at {} by now", Quote(target.path()));
    }
    if (info) return *std::move(info);
  }
  std::uint64_t id = status.mount_id;
  if (status.unique_id) {
    MOORING_ASSIGN_OR_RETURN(id, target.TableMountId());
  }
  return LookUpMount(id, false);
}

absl::StatusOr<MountInfo> MountAt(const Target& target, const Target::Status& status, const SourcePolicy& sources) {
  if (status.unique_id) {
    absl::StatusOr<MountInfo> info = LookUpMount(status.mount_id, true);
    if (!absl::IsUnimplemented(info.status())) return info;
  }
  return MountOnOlderKernel(target, status, sources);
}

// NOT_FOUND: the target was unmounted, or its mount replaced, between two calls.
absl::StatusOr<PathInfo> InspectOnce(const Target& target, const SourcePolicy& sources) {
  MOORING_ASSIGN_OR_RETURN(const Target::Status status, target.Stat());
  PathInfo info;
  info.kind = status.kind;
  if (status.kind == PathInfo::Kind::kMissing) return info;
  info.device = status.kind == PathInfo::Kind::kBlockDevice ? status.rdev : status.device;
  info.inode = status.inode;
  info.inode_device = status.device;
  const absl::StatusOr<bool> empty = IsEmpty(target, status);
  // The path may lead for longer to a directory that rmdir(2) is removing: its process may get no processor meanwhile.
  if (absl::IsNotFound(empty.status())) return PathInfo();
  MOORING_ASSIGN_OR_RETURN(info.empty, empty);
  if (status.mount_root) {
    MOORING_ASSIGN_OR_RETURN(info.mount, MountAt(target, status, sources));
    // The number of a filesystem without a device has the major number 0. A broken filesystem gives no number.
    if (status.error != 0 || major(info.device) == 0) info.device = info.mount->device;
  }
  if (status.error != 0) info.failure = std::generic_category().message(status.error);
  const bool mounted = info.mount && info.mount->device == info.device;
  MOORING_ASSIGN_OR_RETURN(info.loop, LoopByNumber(info.device, mounted));
  return info;
}

}  // namespace

absl::StatusOr<PathInfo> Inspect(const Target& target, const SourcePolicy& sources) {
  constexpr int kAttempts = 64;  // each is a lost race with a mount or unmount here
  absl::StatusOr<PathInfo> info = InspectOnce(target, sources);
  for (int attempt = 1; attempt < kAttempts && absl::IsNotFound(info.status()); ++attempt) {
    info = InspectOnce(target, sources);
  }
  return info;
}

}  // namespace mooring
