#include "mounter/path/target.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <limits.h>
#include <sys/mount.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <optional>
#include <system_error>
#include <thread>

#include "base/file/path.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/sys/lazy_unmount.h"
#include "mounter/sys/syscalls.h"

namespace mooring {
namespace {

// The first component of `path` that is a symbolic link, for the message.
std::string FirstSymlink(const std::string& path) {
  for (std::size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string prefix = path.substr(0, end);
    struct stat status = {};
    if (::lstat(prefix.c_str(), &status) == 0 && S_ISLNK(status.st_mode)) return prefix;
    if (end == std::string::npos) return path;
  }
}

// The last directory on the way to `path` that can be opened: what is mounted there, or above it, is broken.
std::string LastThatOpens(const std::string& path) {
  std::string last = "/";
  for (std::size_t end = path.find('/', 1); end != std::string::npos; end = path.find('/', end + 1)) {
    const std::string prefix = path.substr(0, end);
    if (!UniqueFd(::open(prefix.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)).ok()) break;
    last = prefix;
  }
  return last;
}

absl::Status OpenError(int error, const std::string& path) {
  if (MeansBroken(error)) {
    return FailedPrecondition(fmt::format(
        "{} cannot be reached: the filesystem at {} answers nothing any more ({}). Start what serves it again, or take "
        "it away with all that is mounted below it (umount -l {})",
        Quote(path), Quote(LastThatOpens(path)), std::generic_category().message(error), LastThatOpens(path)));
  }
  if (error == ELOOP) {
    return FailedPrecondition(fmt::format("{} is not used: {} is a symbolic link; give the path it leads to",
                                          Quote(path), Quote(FirstSymlink(path))));
  }
  return ErrnoStatus(error, "open", path);
}

PathInfo::Kind KindOf(unsigned mode) {
  if (S_ISDIR(mode)) return PathInfo::Kind::kDirectory;
  if (S_ISREG(mode)) return PathInfo::Kind::kRegular;
  if (S_ISBLK(mode)) return PathInfo::Kind::kBlockDevice;
  if (S_ISLNK(mode)) return PathInfo::Kind::kSymlink;
  return PathInfo::Kind::kOther;
}

// AT_STATX_DONT_SYNC: what is cached will do, so a FUSE or NFS server that hangs is not asked.
constexpr int kStatFlags = AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC;
// Of the two ids the kernel gives the better one it has: the unique one from Linux 6.8 on.
constexpr unsigned kStatMask =
    STATX_TYPE | STATX_MODE | STATX_INO | STATX_SIZE | sys::kStatxMntId | sys::kStatxMntIdUnique;

Target::Status FromStatx(const struct statx& status) {
  Target::Status result;
  result.unique_id = (status.stx_mask & sys::kStatxMntIdUnique) != 0;
  result.kind = KindOf(status.stx_mode);
  result.mount_root = (status.stx_attributes & sys::kStatxAttrMountRoot) != 0;
  result.mount_id = status.stx_mnt_id;
  result.device = makedev(status.stx_dev_major, status.stx_dev_minor);
  result.rdev = makedev(status.stx_rdev_major, status.stx_rdev_minor);
  result.inode = status.stx_ino;
  result.size = status.stx_size;
  return result;
}

// On failure errno says why.
UniqueFd OpenResolved(int directory, const std::string& path, std::uint64_t flags, std::uint64_t resolve) {
  open_how how = {};
  how.flags = flags | O_CLOEXEC;
  how.resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | resolve;
  return UniqueFd(sys::OpenAt2(directory, path.c_str(), how));
}

}  // namespace

absl::StatusOr<UniqueFd> OpenNoSymlinks(const std::string& path, std::uint64_t flags) {
  UniqueFd fd = OpenResolved(AT_FDCWD, path, flags, 0);
  if (!fd.ok()) return OpenError(errno, path);
  return fd;
}

std::optional<std::uint64_t> TableMountIdOf(const UniqueFd& fd) {
  std::ifstream file(fmt::format("/proc/self/fdinfo/{}", fd.get()));
  std::uint64_t id = 0;
  for (std::string key; file >> key;) {
    if (key == "mnt_id:" && file >> id) return id;
  }
  return std::nullopt;
}

// getdents64(2) itself: readdir(3) would take the descriptor over.
absl::StatusOr<bool> IsEmptyDirectory(const UniqueFd& directory, const std::string& path) {
  alignas(dirent64) std::array<char, 1024> entries = {};
  for (;;) {
    const ssize_t size = ::getdents64(directory.get(), entries.data(), entries.size());
    if (size < 0) return ErrnoStatus(errno, "read the directory", path);
    if (size == 0) return true;
    for (std::size_t at = 0; at < static_cast<std::size_t>(size);) {
      const auto* const entry = reinterpret_cast<const dirent64*>(entries.data() + at);
      const std::string_view name = entry->d_name;
      if (name != "." && name != "..") return false;
      at += entry->d_reclen;
    }
  }
}

absl::Status CheckBelowRoots(const std::string& path, const std::vector<std::string>& roots) {
  if (IsBelowAny(path, roots)) return absl::OkStatus();
  return FailedPrecondition(
      fmt::format("{} lies below none of the directories this process may mount in", Quote(path)));
}

absl::StatusOr<Target> Target::Resolve(const std::string& path, const std::vector<std::string>& roots) {
  MOORING_ASSIGN_OR_RETURN(std::string normal, NormalisePath("path", path));
  MOORING_RETURN_IF_ERROR(CheckBelowRoots(normal, roots));
  MOORING_ASSIGN_OR_RETURN(UniqueFd parent, OpenNoSymlinks(std::string(ParentOf(normal)), O_PATH | O_DIRECTORY));
  std::string name(NameOf(normal));
  return Target(std::move(normal), std::move(parent), std::move(name));
}

absl::StatusOr<Target> Target::ResolveForMount(const std::string& path, const std::vector<std::string>& roots) {
  absl::StatusOr<Target> target = Resolve(path, roots);
  if (!absl::IsNotFound(target.status())) return target;
  return FailedPrecondition(Message(target.status()) + " (the directory above a target is made by the orchestrator)");
}

absl::StatusOr<Target::Status> Target::Stat() const {
  struct statx status = {};
  if (::statx(parent_.get(), name_.c_str(), kStatFlags, kStatMask, &status) != 0) {
    if (errno == ENOENT) return Status{};
    return MeansBroken(errno) ? StatWithoutAsking(errno) : ErrnoStatus(errno, "look at", path_);
  }
  return FromStatx(status);
}

// Of the filesystem nothing is asked but the way to it. Where that leads to another mount than the parent's, its root
// is what is at the path.
absl::StatusOr<Target::Status> Target::StatWithoutAsking(int error) const {
  const UniqueFd fd(::openat(parent_.get(), name_.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  const std::optional<std::uint64_t> here = fd.ok() ? TableMountIdOf(fd) : std::nullopt;
  if (!here || here == TableMountIdOf(parent_)) return ErrnoStatus(error, "look at", path_);
  Status result;
  result.kind = PathInfo::Kind::kDirectory;
  result.mount_root = true;
  result.mount_id = *here;
  result.error = error;
  return result;
}

absl::StatusOr<std::uint64_t> Target::TableMountId() const {
  struct statx status = {};
  if (::statx(parent_.get(), name_.c_str(), kStatFlags, sys::kStatxMntId, &status) != 0) {
    return ErrnoStatus(errno, "look at", path_);
  }
  return status.stx_mnt_id;
}

absl::StatusOr<bool> Target::IsEmptyDirectory() const {
  const UniqueFd fd(::openat(parent_.get(), name_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd.ok()) return ErrnoStatus(errno, "open the directory", path_);
  return mooring::IsEmptyDirectory(fd, path_);
}

absl::StatusOr<UniqueFd> Target::OpenToLock(TargetKind kind) const {
  const bool directory = kind == TargetKind::kDirectory;
  UniqueFd fd = OpenResolved(parent_.get(), name_, directory ? O_RDONLY | O_DIRECTORY : O_PATH, RESOLVE_BENEATH);
  if (!fd.ok()) return OpenError(errno, path_);
  return directory ? absl::StatusOr<UniqueFd>(std::move(fd)) : OpenRegular(fd);
}

// To open a device node, or a FIFO, is to do something with it.
absl::StatusOr<UniqueFd> Target::OpenRegular(const UniqueFd& found) const {
  struct stat status = {};
  if (::fstat(found.get(), &status) != 0) return ErrnoStatus(errno, "look at", path_);
  if (!S_ISREG(status.st_mode)) {
    return FailedPrecondition(
        fmt::format("{} has to be an empty file for a block device to be bound on", Quote(path_)));
  }
  MOORING_ASSIGN_OR_RETURN(const std::string link, LinkTo(found));
  UniqueFd fd(::open(link.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!fd.ok()) return ErrnoStatus(errno, "open", path_);
  return fd;
}

absl::StatusOr<bool> Target::Make(TargetKind kind) const {
  if (kind == TargetKind::kDirectory) {
    if (::mkdirat(parent_.get(), name_.c_str(), kTargetDirectoryMode) == 0) return true;
    if (errno == EEXIST) return false;
    return ErrnoStatus(errno, "make the directory", path_);
  }
  UniqueFd fd(::openat(parent_.get(), name_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kTargetFileMode));
  if (fd.ok()) return true;
  if (errno == EEXIST) return false;
  return ErrnoStatus(errno, "make the file", path_);
}

absl::Status Target::Remove() const {
  MOORING_ASSIGN_OR_RETURN(const Status status, Stat());
  if (status.kind == PathInfo::Kind::kMissing) return absl::OkStatus();
  if (status.kind == PathInfo::Kind::kDirectory) {
    if (::unlinkat(parent_.get(), name_.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT) return absl::OkStatus();
    return ErrnoStatus(errno, "remove the directory (only ever when it is empty)", path_);
  }
  if (status.kind != PathInfo::Kind::kRegular || status.size != 0 || status.mount_root) {
    return FailedPrecondition(fmt::format("{} is not removed: it is not an empty file", Quote(path_)));
  }
  if (::unlinkat(parent_.get(), name_.c_str(), 0) == 0 || errno == ENOENT) return absl::OkStatus();
  return ErrnoStatus(errno, "remove the file", path_);
}

absl::Status Target::Unmount() const {
  // Somebody's statfs or open holds a mount busy for microseconds: a moment of patience tells that from a real user.
  constexpr int kAttempts = 5;
  for (int attempt = 1;; ++attempt) {
    if (::umount2(Handle().c_str(), UMOUNT_NOFOLLOW) == 0) return absl::OkStatus();
    const int error = errno;
    if (error == EBUSY && attempt < kAttempts) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1 << attempt));
      continue;
    }
    if (error == EINVAL || error == ENOENT) {
      MOORING_ASSIGN_OR_RETURN(const Status status, Stat());
      if (!status.mount_root) return absl::OkStatus();
    }
    return ErrnoStatus(error, "unmount", path_);
  }
}

absl::StatusOr<std::string> Target::LinkTo(const UniqueFd& fd) const {
  if (!own_fds_.ok()) return fmt::format("/proc/self/fd/{}", fd.get());
  if (::fchdir(own_fds_.get()) != 0) return ErrnoStatus(errno, "enter /proc/self/fd to reach the mount at", path_);
  return fmt::format("{}", fd.get());
}

absl::Status Target::TakeBack(const UniqueFd& mount) const {
  MOORING_ASSIGN_OR_RETURN(const std::string link, LinkTo(mount));
  const int error = UnmountLazily(link);
  if (error == 0 || error == EINVAL) return absl::OkStatus();  // EINVAL: somebody unmounted it
  return ErrnoStatus(error, "take away again the mount at", path_);
}

absl::Status Target::CheckArrived(const UniqueFd& mount) const {
  MOORING_ASSIGN_OR_RETURN(const std::string link, LinkTo(mount));
  std::array<char, PATH_MAX> place = {};
  const ssize_t size = ::readlink(link.c_str(), place.data(), place.size());
  const int unknown = size < 0 ? errno : 0;
  if (unknown == ENOENT) return absl::OkStatus();  // in a namespace without proc(5) there is no telling
  const std::string here(place.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
  if (here == path_) return absl::OkStatus();
  // Exactly this mount, by its descriptor, for no path leads to it that cannot be swapped again. The descriptor holds
  // it busy, and nobody else uses it yet: hence lazily.
  const int error = UnmountLazily(link);
  if (error == EINVAL) {
    return FailedPrecondition(fmt::format(
        "{} was unmounted again at once: nothing is mounted; keep others from unmounting it", Quote(path_)));
  }
  if (error != 0) return ErrnoStatus(error, "take away the mount at", here.empty() ? path_ : here);
  if (unknown != 0) return ErrnoStatus(unknown, "find out where the new mount is:", path_);
  return FailedPrecondition(
      fmt::format("{} was moved to {} while it was mounted on: nothing is mounted; keep others from renaming there",
                  Quote(path_), Quote(here)));
}

std::string Target::Handle() const { return fmt::format("/proc/self/fd/{}/{}", parent_.get(), name_); }

}  // namespace mooring
