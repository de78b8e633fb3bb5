#include "mounter/guard/source_guard.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <limits.h>
#include <linux/btrfs.h>
#include <linux/btrfs_tree.h>
#include <linux/major.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "base/file/path.h"
#include "base/log.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/loop/loop_device.h"
#include "mounter/mount/memory_mount.h"
#include "mounter/path/device_links.h"
#include "mounter/path/target.h"
#include "mounter/sys/device_name.h"
#include "mounter/sys/syscalls.h"
#include "mounter/table/known_memory.h"
#include "mounter/table/mount_table.h"

namespace mooring {
namespace {

// nullopt: it is no directory. AT_STATX_DONT_SYNC: does not ask a server that may hang.
absl::StatusOr<std::optional<std::pair<dev_t, ino_t>>> InodeOf(const UniqueFd& place, const std::string& path) {
  struct statx status = {};
  const int flags = AT_EMPTY_PATH | AT_STATX_DONT_SYNC;
  if (::statx(place.get(), "", flags, STATX_TYPE | STATX_INO, &status) != 0) {
    return ErrnoStatus(errno, "inspect", path);
  }
  if (!S_ISDIR(status.stx_mode)) return std::nullopt;
  return std::pair<dev_t, ino_t>(makedev(status.stx_dev_major, status.stx_dev_minor), status.stx_ino);
}

absl::StatusOr<bool> HasEntry(const std::string& pool, const std::string& name, const std::pair<dev_t, ino_t>& inode) {
  if (name.empty() || name == "." || name == "..") return false;
  const absl::StatusOr<UniqueFd> directory = OpenNoSymlinks(pool, O_PATH | O_DIRECTORY);
  if (absl::IsNotFound(directory.status())) return false;
  MOORING_RETURN_IF_ERROR(directory.status());
  // A pool on another filesystem is not asked for the name, because its server may hang. Each subvolume of a btrfs has
  // a device of its own.
  MOORING_ASSIGN_OR_RETURN(const auto own, InodeOf(*directory, pool));
  if (!own) return false;
  if (own->first != inode.first) {
    const absl::StatusOr<ListedMount> mount = LookUpMountOf(*directory, pool);
    if (!mount.ok() || mount->fs_type != "btrfs") return false;
  }
  struct stat there = {};
  if (::fstatat(directory->get(), name.c_str(), &there, AT_SYMLINK_NOFOLLOW) != 0) {
    if (errno == ENOENT) return false;
    return ErrnoStatus(errno, "look at", pool + "/" + name);
  }
  return S_ISDIR(there.st_mode) && there.st_dev == inode.first && there.st_ino == inode.second;
}

// The current path of the open directory, whichever path led to it. Empty: /proc does not tell.
std::string PathOf(const UniqueFd& place) {
  std::array<char, PATH_MAX> path = {};
  const ssize_t size = ::readlink(fmt::format("/proc/self/fd/{}", place.get()).c_str(), path.data(), path.size());
  return size < 0 ? std::string() : std::string(path.data(), static_cast<std::size_t>(size));
}

// The name of an open btrfs subvolume in its parent, where it is listed with another inode than it has. Empty: it is
// none. On other filesystems nothing is opened, which could hang.
std::string SubvolumeName(const UniqueFd& place, ino_t inode, const std::string& path) {
  if (inode != BTRFS_FIRST_FREE_OBJECTID) return "";
  const absl::StatusOr<ListedMount> mount = LookUpMountOf(place, path);
  if (!mount.ok() || mount->fs_type != "btrfs") return "";
  const UniqueFd open(::openat(place.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  btrfs_ioctl_get_subvol_info_args info = {};
  if (!open.ok() || ::ioctl(open.get(), BTRFS_IOC_GET_SUBVOL_INFO, &info) < 0) return "";  // it may answer 1
  return std::string(info.name, ::strnlen(info.name, sizeof(info.name)));
}

absl::Status Refuse(const std::string& message) {
  log::Once(log::Level::kWarning, "refused a source that is no volume", {{"request", message}});
  return FailedPrecondition(message);
}

absl::Status RefusePlace(const std::string& place) {
  return Refuse(fmt::format("{} lies in none of the directories of volumes that the mount helper was started with",
                            Quote(place)));
}

absl::Status RefuseBindSource(const std::string& path) {
  return Refuse(fmt::format("{} is neither the loop device of a volume, nor a mount of one, nor a directory volume",
                            Quote(path)));
}

// The current path of the open file, whichever path led to it.
absl::StatusOr<std::string> PlaceOf(const UniqueFd& file, const std::string& path) {
  std::array<char, PATH_MAX> place = {};
  const ssize_t size = ::readlink(fmt::format("/proc/self/fd/{}", file.get()).c_str(), place.data(), place.size());
  if (size < 0) return ErrnoStatus(errno, "find the current path of", path);
  return std::string(place.data(), static_cast<std::size_t>(size));
}

absl::StatusOr<struct statx> StatOf(const UniqueFd& file, const std::string& path) {
  struct statx status = {};
  const int flags = AT_EMPTY_PATH | AT_STATX_DONT_SYNC;  // does not ask a server that may hang
  if (::statx(file.get(), "", flags, STATX_TYPE | STATX_MODE | STATX_INO | STATX_UID | STATX_NLINK, &status) == 0)
    return status;
  return ErrnoStatus(errno, "inspect", path);
}

bool IsMountedDirectory(const struct statx& status) {
  return (status.stx_attributes & sys::kStatxAttrMountRoot) != 0 && S_ISDIR(status.stx_mode);
}

// Whether the device is gone: the disk of the volume was pulled, or somebody detached its loop device.
bool IsGone(const PathInfo& info) {
  if (info.kind == PathInfo::Kind::kBlockDevice && major(info.device) == LOOP_MAJOR) return !info.loop;
  const bool on_disk = info.kind == PathInfo::Kind::kBlockDevice || major(info.device) != 0;
  const std::string entry = fmt::format("/sys/dev/block/{}:{}", major(info.device), minor(info.device));
  return on_disk && ::access(entry.c_str(), F_OK) != 0 && errno == ENOENT && ::access("/sys/dev/block", F_OK) == 0;
}

// The path of the directory in its filesystem. `mount` shows a part of that filesystem.
std::string PathInFilesystem(const std::string& directory, const MountInfo& mount) {
  const std::string below = mount.target == "/" ? directory : directory.substr(mount.target.size());
  if (mount.root == "/") return below.empty() ? "/" : below;
  return mount.root + below;
}

}  // namespace

absl::StatusOr<std::string> VolumeDirectories::NameOf(const UniqueFd& place) const {
  if (pools_.empty()) return "";
  const std::string path = PathOf(place);
  MOORING_ASSIGN_OR_RETURN(const std::optional<Inode> inode, InodeOf(place, path));
  if (!inode) return "";
  const absl::StatusOr<std::string> known = FindKnown(*inode);
  if (known.ok() && !known->empty()) return known;
  const absl::StatusOr<std::string> by_name = FindByName(*inode, std::string(mooring::NameOf(path)));
  if (by_name.ok() && !by_name->empty()) return by_name;
  const absl::StatusOr<std::string> as_subvolume = FindByName(*inode, SubvolumeName(place, inode->second, path));
  if (as_subvolume.ok() && !as_subvolume->empty()) return as_subvolume;
  const absl::Status read = ReadNames(*inode);
  const absl::StatusOr<std::string> found = FindKnown(*inode);
  if (found.ok() && !found->empty()) return found;
  for (const absl::Status& problem : {known.status(), by_name.status(), read, found.status()}) {
    MOORING_RETURN_IF_ERROR(problem);
  }
  return "";
}

absl::StatusOr<std::string> VolumeDirectories::FindKnown(const Inode& inode) const {
  Entry entry;
  {
    const absl::MutexLock lock(&mutex_);
    const auto found = known_.find(inode);
    if (found == known_.end()) return "";
    entry = found->second;
  }
  MOORING_ASSIGN_OR_RETURN(const bool is_there, HasEntry(entry.pool, entry.name, inode));
  return is_there ? entry.name : "";
}

absl::StatusOr<std::string> VolumeDirectories::FindByName(const Inode& inode, const std::string& name) const {
  absl::StatusOr<std::string> found = "";
  for (const std::string& pool : pools_) {
    const absl::StatusOr<bool> is_there = HasEntry(pool, name, inode);
    if (!is_there.ok()) found = is_there.status();
    if (!is_there.value_or(false)) continue;
    const absl::MutexLock lock(&mutex_);
    known_[inode] = {pool, name};
    return name;
  }
  return found;
}

// Forgets all names on the device, among them those of deleted volumes. A pool that is missing has no volumes.
absl::Status VolumeDirectories::ReadNames(const Inode& inode) const {
  const dev_t device = inode.first;
  std::map<Inode, Entry> read;
  absl::Status problem;
  for (const std::string& pool : pools_) {
    absl::StatusOr<UniqueFd> place = OpenNoSymlinks(pool, O_PATH | O_DIRECTORY);
    if (absl::IsNotFound(place.status())) continue;
    const auto own = place.ok() ? InodeOf(*place, pool) : place.status();
    if (!own.ok()) problem = own.status();
    if (!own.ok() || !*own || (*own)->first != device) continue;
    UniqueFd open(::openat(place->get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    const std::unique_ptr<DIR, int (*)(DIR*)> entries(open.ok() ? ::fdopendir(open.get()) : nullptr, ::closedir);
    if (entries == nullptr) {
      problem = ErrnoStatus(errno, "read the directory", pool);
      continue;
    }
    open.release();
    for (const dirent* entry = ::readdir(entries.get()); entry != nullptr; entry = ::readdir(entries.get())) {
      read[{device, entry->d_ino}] = {pool, entry->d_name};
    }
  }
  const absl::MutexLock lock(&mutex_);
  std::erase_if(known_, [device](const auto& known) { return known.first.first == device; });
  known_.merge(read);
  return known_.contains(inode) ? absl::OkStatus() : problem;
}

absl::Status SourceGuard::CheckBindSource(const UniqueFd& source, const std::string& path) const {
  MOORING_ASSIGN_OR_RETURN(const struct statx status, StatOf(source, path));
  const absl::StatusOr<bool> ours = IsOurMount(source, status, path);
  if (ours.value_or(false)) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(const std::string name, volume_directories_.NameOf(source));
  if (!name.empty()) return absl::OkStatus();
  return ours.ok() ? RefuseBindSource(path) : ours.status();
}

absl::Status SourceGuard::CheckInspectedSource(const UniqueFd& source, const std::string& path,
                                               const PathInfo& info) const {
  const bool on_loop = info.mount && info.kind == PathInfo::Kind::kDirectory && info.loop && info.loop->mounted;
  if (on_loop && info.loop->label.starts_with(label_prefix_)) return absl::OkStatus();
  return CheckBindSource(source, path);
}

absl::Status SourceGuard::HandToTasks(const UniqueFd& source, const std::string& path) const {
  const std::string above(ParentOf(path));
  const std::vector<std::string>& pools = volume_directories_.pools();
  if (std::find(pools.begin(), pools.end(), above) == pools.end()) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(const struct statx status, StatOf(source, path));
  const mode_t mode =
      status.stx_mode & 07777 & ~static_cast<mode_t>(S_ISGID);  // a new directory may inherit setgid from the pool
  if (mode != kNeverStaged) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(const std::string name, volume_directories_.NameOf(source));
  if (name.empty()) return absl::OkStatus();
  const std::string handle = fmt::format("/proc/self/fd/{}", source.get());  // fchmod(2) refuses O_PATH descriptors
  // Changes the mode last, so that an interrupted call is repeated.
  if (::fchownat(source.get(), "", ::geteuid(), ::getegid(), AT_EMPTY_PATH) == 0 &&
      ::chmod(handle.c_str(), 0755) == 0) {
    return absl::OkStatus();
  }
  return ErrnoStatus(errno, "give to root, for tasks,", path);
}

absl::Status SourceGuard::CheckFilesystem(const UniqueFd& mount, const std::string& path) const {
  MOORING_ASSIGN_OR_RETURN(const struct statx status, StatOf(mount, path));
  MOORING_ASSIGN_OR_RETURN(const bool ours, IsOurMount(mount, status, path));
  return ours ? absl::OkStatus() : RefuseBindSource(path);
}

absl::Status SourceGuard::CheckUnmount(const Target& target, const PathInfo& info) const {
  if (IsOurs(target, info) || LiesInOurMount(target) || CoversMarkedTarget(target)) return absl::OkStatus();
  const std::string message = fmt::format(
      "{} is a mount ({}) that neither belongs to a volume nor lies in one, so the mount helper does not unmount it; "
      "if "
      "it is not needed any more, unmount it as root (umount {})",
      Quote(target.path()), info.mount->fs_type, target.path());
  log::Once(log::Level::kWarning, "refused to unmount a mount that is no volume", {{"request", message}});
  return FailedPrecondition(message);
}

// Decides by `info` first, because a broken filesystem does not answer.
bool SourceGuard::IsOurs(const Target& target, const PathInfo& info) const {
  if (info.loop && info.loop->label.starts_with(label_prefix_)) return true;
  if (IsBehindLinks(device_links_, info.device).value_or(false)) return true;
  if (info.mount->fs_type == kMemoryFsType) return info.mount->source.starts_with(label_prefix_);
  if (IsGone(info)) return true;
  // A look into the pool could hang. The kernel knows the mounted directory without its server.
  if (info.mount->fs_type == kNfsFsType) return IsNamedAsVolumeDirectory(*info.mount);
  const UniqueFd place(::open(target.Handle().c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  const absl::StatusOr<struct statx> status = StatOf(place, target.path());
  if (!place.ok() || volume_directories_.pools().empty()) return false;
  if (!status.ok()) return IsNamedAsVolumeDirectory(*info.mount);
  const bool deleted =
      S_ISDIR(status->stx_mode) && status->stx_nlink == 0;  // the directory of a volume, perhaps with its pool
  return deleted || !VolumeDirectoryName(place).empty();
}

// A task with bidirectional propagation may mount inside its volume. Such mounts propagate to the host.
bool SourceGuard::LiesInOurMount(const Target& target) const {
  UniqueFd directory(::open(std::string(ParentOf(target.Handle())).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  for (std::pair<dev_t, ino_t> below; directory.ok();) {
    const absl::StatusOr<struct statx> status = StatOf(directory, target.path());
    if (!status.ok()) return false;
    if (IsMountedDirectory(*status)) {
      const absl::StatusOr<bool> ours = IsOurMount(directory, *status, target.path());
      if ((ours.ok() && *ours) || !VolumeDirectoryName(directory).empty()) return true;
    }
    const std::pair<dev_t, ino_t> here(makedev(status->stx_dev_major, status->stx_dev_minor), status->stx_ino);
    if (here == below) return false;  // ".." of the root is the root
    below = here;
    directory.reset(::openat(directory.get(), "..", O_PATH | O_DIRECTORY | O_CLOEXEC));
  }
  return false;
}

absl::Status SourceGuard::CheckBackingFile(const UniqueFd& file, const std::string& path) const {
  struct stat status = {};
  if (::fstat(file.get(), &status) != 0) return ErrnoStatus(errno, "inspect", path);
  if (S_ISBLK(status.st_mode)) {
    MOORING_ASSIGN_OR_RETURN(const bool ours, IsOurDevice(status.st_rdev));
    return ours ? absl::OkStatus() : RefuseBindSource(path);
  }
  MOORING_ASSIGN_OR_RETURN(const std::string place, PlaceOf(file, path));
  if (S_ISREG(status.st_mode) && IsBelowAny(place, directories_)) return absl::OkStatus();
  return RefusePlace(place);
}

absl::Status SourceGuard::CheckDirectory(const UniqueFd& directory, const std::string& path) const {
  MOORING_ASSIGN_OR_RETURN(const std::string place, PlaceOf(directory, path));
  return IsBelowAny(place, directories_) ? absl::OkStatus() : RefusePlace(place);
}

absl::StatusOr<bool> SourceGuard::IsOurDevice(dev_t device) const {
  MOORING_ASSIGN_OR_RETURN(const std::optional<std::string> label, LoopLabel(device));
  if (label && label->starts_with(label_prefix_)) return true;
  return IsBehindLinks(device_links_, device);
}

absl::StatusOr<bool> SourceGuard::IsOurMount(const UniqueFd& place, const struct statx& status,
                                             const std::string& path) const {
  if (S_ISBLK(status.stx_mode)) return IsOurDevice(makedev(status.stx_rdev_major, status.stx_rdev_minor));
  if (!IsMountedDirectory(status)) return false;
  if (status.stx_dev_major != 0) return IsOurDevice(makedev(status.stx_dev_major, status.stx_dev_minor));
  // A tmpfs has no device, and the number of a btrfs is not that of its device.
  absl::StatusOr<ListedMount> mount = AskForMountOf(place, path);
  if (absl::IsUnimplemented(mount.status())) {
    const std::optional<dev_t> below_btrfs = BtrfsDeviceOf(place.get());
    if (below_btrfs) return IsOurDevice(*below_btrfs);
    if (const std::optional<std::string> source = RecallMemory(place)) return source->starts_with(label_prefix_);
    mount = LookUpMountOf(place, path);
  }
  if (!mount.ok()) return mount.status();
  MOORING_ASSIGN_OR_RETURN(const bool ours, IsOurDevice(mount->device));
  return ours || (mount->fs_type == kMemoryFsType && mount->source.starts_with(label_prefix_));
}

// For a filesystem that does not answer: decides by the mount table of the kernel.
bool SourceGuard::IsNamedAsVolumeDirectory(const MountInfo& mount) const {
  const std::vector<std::string>& pools = volume_directories_.pools();
  return std::any_of(pools.begin(), pools.end(), [&](const std::string& directory) {
    const absl::StatusOr<UniqueFd> pool = OpenNoSymlinks(directory, O_PATH | O_DIRECTORY);
    if (!pool.ok()) return false;
    const std::optional<std::uint64_t> id = TableMountIdOf(*pool);
    if (!id) return false;
    const absl::StatusOr<MountInfo> around = LookUpMount(*id, false);
    return around.ok() && around->device == mount.device && IsBelow(directory, around->target) &&
           ParentOf(mount.root) == PathInFilesystem(directory, *around);
  });
}

}  // namespace mooring
