#include <endian.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/capability.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <linux/major.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include <xfs/xfs.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "base/file/path.h"
#include "base/file/whole_file.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/filesystem/btrfs_mount.h"
#include "mounter/filesystem/ext4_offline.h"
#include "mounter/filesystem/filesystem.h"
#include "mounter/image/image.h"
#include "mounter/loop/loop_device.h"
#include "mounter/mount/new_mount.h"
#include "mounter/path/target.h"
#include "mounter/subvolume/pool_calls.h"
#include "mounter/subvolume/strangers.h"
#include "mounter/superblock/ext4_super.h"
#include "mounter/superblock/superblock_guard.h"
#include "mounter/sys/device_name.h"
#include "mounter/sys/syscalls.h"
#include "mounter/table/mount_table.h"

namespace mooring {
namespace {

// The name of a loop device follows from its number. Sysfs tells the names of other devices.
std::string NameOfDevice(dev_t number) {
  return major(number) == LOOP_MAJOR ? fmt::format("loop{}", minor(number)) : BlockDeviceName(number);
}

constexpr unsigned long kExt4ResizeFs = _IOW('f', 16, __u64);  // EXT4_IOC_RESIZE_FS, in no exported header

absl::Status GrowExt4(const UniqueFd& root, const std::string& path, std::uint64_t bytes) {
  struct statfs status = {};
  if (::fstatfs(root.get(), &status) != 0) return ErrnoStatus(errno, "look at the filesystem of", path);
  const __u64 blocks = bytes / static_cast<std::uint64_t>(status.f_bsize);
  if (::ioctl(root.get(), kExt4ResizeFs, &blocks) == 0) return absl::OkStatus();
  const int error = errno;
  const absl::Status failure = GrowFailure(error, "grow the mounted ext4 at", path);
  struct stat file = {};
  if ((error != EPERM && error != EROFS) || ::fstat(root.get(), &file) != 0) return failure;
  MountedDevice device(file.st_dev);
  // The kernel asks for the capability, and for a writable filesystem, even where there is nothing to grow.
  if (!device.CanGrowExt4To(bytes)) return absl::OkStatus();
  if (error == EROFS) return failure;
  if (device.Ext4Errors() != 0) {
    return FailedPrecondition(Message(failure) +
                              ": it has met errors, and the kernel grows none that has; unpublish and unstage the "
                              "volume: the next stage checks and grows it");
  }
  return FailedPrecondition(Message(failure) +
                            ": the kernel wants CAP_SYS_RESOURCE for that; give it to this process, or unpublish and "
                            "unstage the volume: the next stage grows it");
}

// Whether each copy of the superblock has the size of the filesystem. True also if a copy cannot be read.
bool XfsCopiesAreCurrent(const UniqueFd& device, const xfs_fsop_geom& geometry) {
  constexpr std::size_t kBytes = 4096, kSizeAt = 8;  // direct I/O; sb_dblocks, "XFS Algorithms & Data Structures"
  alignas(kBytes) std::array<char, kBytes> copy = {};
  const std::uint64_t stride = std::uint64_t{geometry.agblocks} * geometry.blocksize;
  for (std::uint64_t group = 1; group < geometry.agcount; ++group) {
    if (::pread(device.get(), copy.data(), kBytes, static_cast<off_t>(group * stride)) != kBytes) return true;
    std::uint64_t blocks = 0;
    std::memcpy(&blocks, copy.data() + kSizeAt, sizeof(blocks));
    if (be64toh(blocks) != geometry.datablocks) return false;
  }
  return true;
}

// The kernel writes the copies of the superblock last, not through the log, and does not flush them. After a power cut
// they may name the old size, and xfs_repair would cut the filesystem to it.
absl::Status GrowXfs(const UniqueFd& root, const std::string& path, std::uint64_t bytes) {
  xfs_fsop_geom geometry = {};
  struct stat status = {};
  if (::fstat(root.get(), &status) != 0 || ::ioctl(root.get(), XFS_IOC_FSGEOMETRY, &geometry) != 0)
    return ErrnoStatus(errno, "ask for the geometry of", path);
  const std::string node = "/dev/" + BlockDeviceName(status.st_dev);
  const UniqueFd device(::open(node.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC));  // a container may lack the node
  const bool larger = bytes / geometry.blocksize > geometry.datablocks;
  if (!larger && XfsCopiesAreCurrent(device, geometry)) return absl::OkStatus();
  xfs_growfs_data growth = {};
  growth.newblocks = larger ? bytes / geometry.blocksize : geometry.datablocks;  // the kernel writes all copies again
  growth.imaxpct = geometry.imaxpct;
  if (::ioctl(root.get(), XFS_IOC_FSGROWFSDATA, &growth) != 0) {
    if (!larger) return absl::OkStatus();  // the next stage tries again
    return GrowFailure(errno, "grow the mounted xfs at", path);
  }
  return !device.ok() || ::fsync(device.get()) == 0 ? absl::OkStatus()
                                                    : ErrnoStatus(errno, "flush the growth of the xfs to", node);
}

// The kernel grows it in a mount that is attached nowhere. Its journal makes the growth all or nothing.
absl::Status GrowThroughMount(const LockedImage& image) {
  MOORING_RETURN_IF_ERROR(CheckSuperblock(image.fd.get(), image.path, "ext4"));
  MOORING_ASSIGN_OR_RETURN(const OpenLoop loop, OpenOrAttachLoop({.label = "mooring-grow", .auto_clear = true}, image));
  MountRequest request;
  request.source = image.path;
  request.fs_type = "ext4";
  MOORING_ASSIGN_OR_RETURN(const NewMount mount, MakeHiddenMount(request, loop.info.device));
  MOORING_ASSIGN_OR_RETURN(const UniqueFd root, mount.OpenRoot());
  return GrowExt4(root, image.path, static_cast<std::uint64_t>(image.status.st_size));
}

std::uint64_t XfsBytes(const UniqueFd& root) {
  xfs_fsop_geom geometry = {};
  return ::ioctl(root.get(), XFS_IOC_FSGEOMETRY, &geometry) == 0 ? geometry.datablocks * geometry.blocksize : 0;
}

// Where the whole filesystem of this mount is mounted.
absl::StatusOr<UniqueFd> OpenTopOfBtrfs(const MountInfo& info) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<ListedMount> mounts, ListMounts("/"));
  for (const ListedMount& mount : mounts) {
    if (mount.fs_type != "btrfs" || mount.root != "/" || mount.device != info.device) continue;
    absl::StatusOr<UniqueFd> top = OpenNoSymlinks(mount.target, O_RDONLY | O_DIRECTORY);
    const bool is_same = top.ok() && BtrfsDeviceOf(top->get()) == info.device;
    if (is_same && CheckIsTopOfBtrfs(*top, mount.target).ok()) return top;
  }
  return NotFound("the top of the btrfs at {} is mounted nowhere here", Quote(info.target));
}

// btrfs repairs some errors from a second copy of the data. It counts these as well. NOT_FOUND: it was unmounted
// meanwhile.
absl::StatusOr<std::string> BtrfsProblem(const MountInfo& info) {
  const std::string& path = info.target;
  MOORING_ASSIGN_OR_RETURN(const UniqueFd root, OpenNoSymlinks(path, O_RDONLY | O_DIRECTORY));
  if (BtrfsDeviceOf(root.get()) != info.device) return NotFound("the btrfs at {} was unmounted meanwhile", Quote(path));
  MOORING_ASSIGN_OR_RETURN(const std::uint64_t errors, BtrfsErrors(root, path));
  const bool is_directly_below_top = info.root.find('/', 1) == std::string::npos;
  if (errors == 0 && is_directly_below_top) {
    return FindSubvolumeProblem(root, path, NameOf(info.root), [&info] { return OpenTopOfBtrfs(info); });
  }
  if (errors == 0) return std::string();
  return fmt::format(
      "btrfs has met {} error(s) of its device: see what is damaged with btrfs scrub start -B {}, and reset the count "
      "with btrfs device stats -z",
      errors, Quote(path));
}

std::string BackingFileProblem(dev_t number, MountedDevice& device) {
  const std::string backing =
      FirstLine(fmt::format("/sys/dev/block/{}:{}/loop/backing_file", major(number), minor(number)));
  if (backing.empty()) return "";
  constexpr std::string_view kDeleted = " (deleted)";
  if (backing.ends_with(kDeleted)) return fmt::format("its backing file {} was deleted", Quote(backing));
  struct stat status = {};
  if (::stat(backing.c_str(), &status) != 0) return "";  // its path is of another mount namespace
  if (static_cast<std::uint64_t>(status.st_size) >= device.Bytes()) return "";
  return fmt::format("its backing file {} is cut short: {} bytes of {}", Quote(backing), status.st_size,
                     device.Bytes());
}

std::string HasBecomeReadOnly(const MountInfo& info) {
  return fmt::format("the {} filesystem has become read-only: the kernel's log says after which error", info.fs_type);
}

}  // namespace

std::uint64_t MountedDevice::Bytes() {
  if (bytes_) return *bytes_;
  std::uint64_t bytes = 0;
  const bool told = Node().ok() && ::ioctl(node_.get(), BLKGETSIZE64, &bytes) == 0;
  bytes_ = told ? bytes : BlockDeviceBytes(number_).value_or(0);
  return *bytes_;
}

std::uint64_t MountedDevice::Ext4Bytes() { return ReadExt4() ? ext4_->bytes : 0; }

bool MountedDevice::CanGrowExt4To(std::uint64_t device_bytes) { return !ReadExt4() || CanGrowTo(*ext4_, device_bytes); }

std::uint64_t MountedDevice::Ext4Errors() {
  if (ReadExt4()) return ext4_->errors;
  std::ifstream file(fmt::format("/sys/fs/ext4/{}/errors_count", NameOfDevice(number_)));
  std::uint64_t errors = 0;
  return file >> errors ? errors : 0;
}

const std::optional<Ext4Super>& MountedDevice::ReadExt4() {
  if (read_ || !Node().ok()) return ext4_;
  read_ = true;
  absl::StatusOr<Ext4Super> super = ReadExt4Super(node_.get(), path_);
  if (super.ok()) ext4_ = *std::move(super);
  return ext4_;
}

const UniqueFd& MountedDevice::Node() {
  if (opened_) return node_;
  opened_ = true;
  const std::string name = NameOfDevice(number_);
  path_ = "/dev/" + name;
  if (!name.empty()) node_.reset(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  return node_;
}

absl::Status GrowFailure(int error, std::string_view operation, const std::string& path) {
  const absl::Status failure = ErrnoStatus(error, operation, path);
  return error == EUCLEAN || error == EIO ? absl::DataLossError(Message(failure)) : failure;
}

// The figures of a subvolume with a limit are those of its group, not of the whole filesystem. Without CAP_SYS_ADMIN
// the kernel does not tell the group.
static absl::Status LimitToGroup(const UniqueFd& root, const std::string& path, Usage& bytes) {
  const absl::StatusOr<std::optional<BtrfsQuotas::Group>> found = GroupOfSubvolume(root, path);
  if (absl::IsFailedPrecondition(found.status())) return absl::OkStatus();
  MOORING_RETURN_IF_ERROR(found.status());
  const BtrfsQuotas::Group group = found->value_or(BtrfsQuotas::Group());
  if (group.limit == 0) return absl::OkStatus();
  const std::uint64_t left = group.limit - std::min(group.limit, group.used);
  bytes = {group.limit, group.used, std::min(left, bytes.available)};
  return absl::OkStatus();
}

absl::StatusOr<StatsInfo> UsageOf(const UniqueFd& root, const std::string& path, MountedDevice& device) {
  struct statfs status = {};
  if (::fstatfs(root.get(), &status) != 0) return ErrnoStatus(errno, "read the usage of", path);
  const auto block = static_cast<std::uint64_t>(status.f_frsize != 0 ? status.f_frsize : status.f_bsize);
  StatsInfo stats;
  stats.bytes = {status.f_blocks * block, (status.f_blocks - status.f_bfree) * block, status.f_bavail * block};
  stats.inodes = {status.f_files, status.f_files - status.f_ffree, status.f_ffree};
  std::uint64_t used = 0;
  if (status.f_type == BTRFS_SUPER_MAGIC) stats.unused_bytes = BtrfsUnusedBytes(root, path).value_or(0);
  if (status.f_type == EXT4_SUPER_MAGIC) used = device.Ext4Bytes();
  if (status.f_type == XFS_SUPER_MAGIC) used = XfsBytes(root);
  if (used != 0 && device.Bytes() > used) stats.unused_bytes = device.Bytes() - used;
  if (status.f_type == BTRFS_SUPER_MAGIC) MOORING_RETURN_IF_ERROR(LimitToGroup(root, path, stats.bytes));
  return stats;
}

absl::Status GrowMounted(const UniqueFd& root, const std::string& path, const std::string& fs_type,
                         std::uint64_t bytes) {
  if (fs_type == "ext4") return GrowExt4(root, path, bytes);
  if (fs_type == "xfs") return GrowXfs(root, path, bytes);
  if (fs_type == "btrfs") return GrowBtrfs(root, path, bytes);
  return InvalidArgument("cannot grow {} at {}: ext4, xfs and btrfs are known", fs_type, Quote(path));
}

absl::Status GrowUnmounted(const std::string& path, const std::string& fs_type, const SourcePolicy& policy) {
  if (fs_type != "ext4") return FailedPrecondition("{} grows only while it is mounted", fs_type);
  MOORING_ASSIGN_OR_RETURN(const LockedImage image, LockImage(path));
  MOORING_RETURN_IF_ERROR(policy.CheckBackingFile(image.fd, path));
  if (!S_ISREG(image.status.st_mode)) {
    return FailedPrecondition("{} is no image file: it grows only while it is mounted", Quote(path));
  }
  MOORING_ASSIGN_OR_RETURN(UniqueFd unattached, LockUnattached(image));
  MOORING_RETURN_IF_ERROR(UndoUnfinished(image));
  MOORING_ASSIGN_OR_RETURN(const Ext4Super super, ReadExt4Super(image.fd.get(), path));
  if (!CanGrowTo(super, static_cast<std::uint64_t>(image.status.st_size))) return absl::OkStatus();
  unattached.reset();  // the loop device below the mount takes the lock itself
  if (sys::HasCapability(CAP_SYS_RESOURCE) && GrowThroughMount(image).ok()) return LockUnattached(image).status();
  // The kernel was not asked, or refused. e2fsck repairs or names the cause.
  MOORING_ASSIGN_OR_RETURN(unattached, LockUnattached(image));
  return ResizeExt4(image);
}

absl::StatusOr<std::string> FindHealthProblem(const MountInfo& info, MountedDevice& device) {
  if (const std::string problem = BackingFileProblem(info.device, device); !problem.empty()) return problem;
  if (info.superblock_read_only) return HasBecomeReadOnly(info);
  if (info.fs_type == "btrfs") return BtrfsProblem(info);
  if (info.fs_type != "ext4") return std::string();
  const std::string options = FilesystemOptions(info.id);
  if (HasWord(options, "emergency_ro")) return HasBecomeReadOnly(info);  // since Linux 6.15
  if (HasWord(options, "shutdown")) {                                    // its root still answers
    return std::string(
        "the ext4 filesystem was shut down: unpublish and unstage the volume, so that the next stage checks it");
  }
  const std::uint64_t errors = device.Ext4Errors();
  if (errors == 0) return std::string();
  return fmt::format(
      "ext4 has met {} error(s) since it was last checked: unstage the volume, so that the next stage checks it",
      errors);
}

}  // namespace mooring
