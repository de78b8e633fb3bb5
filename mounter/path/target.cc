#include "mounter/path/target.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <limits.h>
#include <sys/mount.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <system_error>
#include <thread>

#include "base/file/path.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/path/lazy_unmount.h"
#include "mounter/sys/syscalls.h"

namespace mooring {
namespace {

// The path up to its first symbolic link, for the message.
std::string FirstSymlink(const std::string& path) {
  for (std::size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string prefix = path.substr(0, end);
    struct stat status = {};
    if (::lstat(prefix.c_str(), &status) == 0 && S_ISLNK(status.st_mode)) return prefix;
    if (end == std::string::npos) return path;
  }
}

// The last directory on the way to `path`, or `path` itself, that can be opened. The broken filesystem is mounted
// there, or above.
std::string LastThatOpens(const std::string& path) {
  std::string last = "/";
  for (std::size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string prefix = path.substr(0, end);
    if (!UniqueFd(::open(prefix.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)).ok()) return last;
    last = prefix;
    if (end == std::string::npos) return last;
  }
}

absl::Status OpenError(int error, const std::string& path) {
  if (MeansBroken(error)) {
    return FailedPrecondition(
        "{} cannot be reached: the filesystem at {} does not answer any more ({}). Restart its server, or unmount it "
        "with everything mounted below it (umount -l {})",
        Quote(path), Quote(LastThatOpens(path)), std::generic_category().message(error), LastThatOpens(path));
  }
  if (error == ELOOP) {
    return FailedPrecondition("{} is not used: {} is a symbolic link; give the path that it leads to", Quote(path),
                              Quote(FirstSymlink(path)));
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

// AT_STATX_DONT_SYNC: cached values are enough, so a FUSE or NFS server that hangs is not asked.
constexpr int kStatFlags = AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC;
// The kernel returns the better id of the two that it has: from Linux 6.8 on, the unique one.
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

// Sets errno on failure.
UniqueFd OpenResolved(int directory, const std::string& path, std::uint64_t flags, std::uint64_t resolve) {
  open_how how = {};
  how.flags = flags | O_CLOEXEC;
  how.resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | resolve;
  return UniqueFd(sys::OpenAt2(directory, path.c_str(), how));
}

constexpr char kMark[] = "trusted.mooring.target";

bool LooksMadeHere(const std::string& handle, mode_t least) {
  struct stat status = {};
  if (::lstat(handle.c_str(), &status) != 0 || status.st_uid != ::geteuid()) return false;
  // A directory inherits the set-group-ID bit (mkdir(2)).
  const mode_t most = S_ISDIR(status.st_mode) ? kTargetDirectoryMode | S_ISGID : kTargetFileMode;
  // Fewer bits are fine: the umask clears some.
  return (status.st_mode & 07777U & ~most) == 0 && (status.st_mode & least) == least;
}

// In other user namespaces the kernel refuses to write the attribute, and hides an existing one.
bool InFirstUserNamespace() {
  std::ifstream file("/proc/self/uid_map");
  std::uint64_t inside = 0, outside = 0, count = 0;
  if (!(file >> inside >> outside >> count)) return true;
  return inside == 0 && outside == 0 && count == 0xFFFFFFFF;
}

}  // namespace

absl::StatusOr<UniqueFd> OpenNoSymlinks(const std::string& path, std::uint64_t flags) {
  UniqueFd fd = OpenResolved(AT_FDCWD, path, flags, 0);
  if (!fd.ok()) return OpenError(errno, path);
  return fd;
}

UniqueFd OpenDirectoryBelow(const UniqueFd& directory, const std::string& path) {
  return OpenResolved(directory.get(), path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, RESOLVE_BENEATH | RESOLVE_NO_XDEV);
}

absl::StatusOr<UniqueFd> OpenVolumeIn(const UniqueFd& pool, const std::string& path) {
  UniqueFd volume = OpenDirectoryBelow(pool, std::string(NameOf(path)));
  if (volume.ok()) return volume;
  if (errno != EXDEV) return ErrnoStatus(errno, "open the directory", path);
  return FailedPrecondition("something is mounted at {}: unmount it first", Quote(path));
}

std::optional<std::uint64_t> TableMountIdOf(const UniqueFd& fd) {
  std::ifstream file(fmt::format("/proc/self/fdinfo/{}", fd.get()));
  std::uint64_t id = 0;
  for (std::string key; file >> key;) {
    if (key == "mnt_id:" && file >> id) return id;
  }
  return std::nullopt;
}

// Calls getdents64(2), because readdir(3) would take ownership of the descriptor.
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

absl::StatusOr<std::string> ProcFdPath(const UniqueFd& fd) { return fmt::format("/proc/self/fd/{}", fd.get()); }

absl::Status CheckBelowRoots(const std::string& path, const std::vector<std::string>& roots) {
  if (IsBelowAny(path, roots)) return absl::OkStatus();
  return FailedPrecondition("{} lies below none of the directories that this process may mount in", Quote(path));
}

absl::StatusOr<Target> Target::Resolve(const std::string& path, const std::vector<std::string>& roots, FdPath fd_path) {
  MOORING_ASSIGN_OR_RETURN(std::string normal, NormalisePath("path", path));
  MOORING_RETURN_IF_ERROR(CheckBelowRoots(normal, roots));
  MOORING_ASSIGN_OR_RETURN(UniqueFd parent, OpenNoSymlinks(std::string(ParentOf(normal)), O_PATH | O_DIRECTORY));
  std::string name(NameOf(normal));
  return Target(std::move(normal), std::move(parent), std::move(name), std::move(fd_path));
}

absl::StatusOr<Target> Target::ResolveForMount(const std::string& path, const std::vector<std::string>& roots,
                                               FdPath fd_path) {
  absl::StatusOr<Target> target = Resolve(path, roots, std::move(fd_path));
  if (!absl::IsNotFound(target.status())) return target;
  return FailedPrecondition(Message(target.status()) +
                            " (the orchestrator has to create the directory above a target)");
}

absl::StatusOr<Target> Target::OfDirectory(const std::string& path) {
  MOORING_ASSIGN_OR_RETURN(std::string normal, NormalisePath("path", path));
  MOORING_ASSIGN_OR_RETURN(UniqueFd directory, OpenNoSymlinks(normal, O_PATH | O_DIRECTORY));
  return Target(std::move(normal), std::move(directory), ".", ProcFdPath);
}

absl::StatusOr<Target::Status> Target::Stat() const {
  struct statx status = {};
  if (::statx(directory_.get(), name_.c_str(), kStatFlags, kStatMask, &status) != 0) {
    if (errno == ENOENT) return Status{};
    return MeansBroken(errno) ? StatBroken(errno) : ErrnoStatus(errno, "inspect", path_);
  }
  return FromStatx(status);
}

// For a filesystem that does not answer: only opens a path to it. If that is on another mount than the directory, it is
// the root of that mount.
absl::StatusOr<Target::Status> Target::StatBroken(int error) const {
  const UniqueFd fd(::openat(directory_.get(), name_.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  const std::optional<std::uint64_t> here = fd.ok() ? TableMountIdOf(fd) : std::nullopt;
  if (!here || here == TableMountIdOf(directory_)) return OpenError(error, path_);
  Status result;
  result.kind = PathInfo::Kind::kDirectory;
  result.mount_root = true;
  result.mount_id = *here;
  result.error = error;
  return result;
}

absl::StatusOr<std::uint64_t> Target::TableMountId() const {
  struct statx status = {};
  if (::statx(directory_.get(), name_.c_str(), kStatFlags, sys::kStatxMntId, &status) == 0) return status.stx_mnt_id;
  return ErrnoStatus(errno, "inspect", path_);
}

absl::StatusOr<bool> Target::IsEmptyDirectory() const {
  const UniqueFd fd(::openat(directory_.get(), name_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd.ok()) return ErrnoStatus(errno, "open the directory", path_);
  return mooring::IsEmptyDirectory(fd, path_);
}

absl::StatusOr<UniqueFd> Target::OpenToLock(TargetKind kind) const {
  const bool directory = kind == TargetKind::kDirectory;
  UniqueFd fd = OpenResolved(directory_.get(), name_, directory ? O_RDONLY | O_DIRECTORY : O_PATH, RESOLVE_BENEATH);
  if (!fd.ok()) return OpenError(errno, path_);
  return directory ? absl::StatusOr<UniqueFd>(std::move(fd)) : OpenRegular(fd);
}

// Opens regular files only, because opening a device node or a FIFO has effects.
absl::StatusOr<UniqueFd> Target::OpenRegular(const UniqueFd& found) const {
  struct stat status = {};
  if (::fstat(found.get(), &status) != 0) return ErrnoStatus(errno, "inspect", path_);
  if (!S_ISREG(status.st_mode)) {
    return FailedPrecondition("{} has to be an empty file, so that a block device can be bound on it", Quote(path_));
  }
  MOORING_ASSIGN_OR_RETURN(const std::string link, fd_path_(found));
  UniqueFd fd(::open(link.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!fd.ok()) return ErrnoStatus(errno, "open", path_);
  return fd;
}

absl::StatusOr<bool> Target::Make(TargetKind kind) const {
  if (kind == TargetKind::kDirectory) {
    if (::mkdirat(directory_.get(), name_.c_str(), kTargetDirectoryMode) == 0) return true;
    if (errno == EEXIST) return false;
    return ErrnoStatus(errno, "create the directory", path_);
  }
  UniqueFd fd(::openat(directory_.get(), name_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kTargetFileMode));
  if (fd.ok()) return true;
  if (errno == EEXIST) return false;
  return ErrnoStatus(errno, "create the file", path_);
}

absl::Status Target::CheckRemovable() const {
  MOORING_ASSIGN_OR_RETURN(const Status status, Stat());
  if (status.kind == PathInfo::Kind::kMissing) return absl::OkStatus();
  bool removable = status.kind == PathInfo::Kind::kRegular && status.size == 0;
  if (status.kind == PathInfo::Kind::kDirectory && !status.mount_root) {
    const absl::StatusOr<bool> empty = IsEmptyDirectory();
    if (absl::IsNotFound(empty.status())) return absl::OkStatus();
    MOORING_ASSIGN_OR_RETURN(removable, empty);
  }
  if (removable && !status.mount_root) return absl::OkStatus();
  return FailedPrecondition(
      "{} is not removed: it is not an empty directory or file. Move what it holds away, and repeat the call",
      Quote(path_));
}

absl::Status Target::Remove() const {
  const auto is_gone = [this](int flags) {
    return ::unlinkat(directory_.get(), name_.c_str(), flags) == 0 || errno == ENOENT;
  };
  if (is_gone(AT_REMOVEDIR)) return absl::OkStatus();
  if (errno == ENOTEMPTY || errno == EEXIST) {
    return FailedPrecondition(
        "nothing is mounted at {} any more, but the directory holds files that were written while nothing was mounted "
        "there, and stays: move the files away, and repeat the call",
        Quote(path_));
  }
  if (errno != ENOTDIR) return ErrnoStatus(errno, "remove the directory", path_);
  MOORING_RETURN_IF_ERROR(CheckRemovable());
  return is_gone(0) ? absl::OkStatus() : ErrnoStatus(errno, "remove the file", path_);
}

absl::Status Target::Unmount() const {
  // A statfs or open of another process keeps a mount busy for microseconds. A real user keeps it busy for longer.
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

absl::Status Target::UndoAttach(const UniqueFd& mount) const {
  MOORING_ASSIGN_OR_RETURN(const std::string link, fd_path_(mount));
  const int error = UnmountLazily(link);
  if (error == 0 || error == EINVAL) return absl::OkStatus();  // EINVAL: somebody unmounted it
  return ErrnoStatus(error, "unmount again", path_);
}

absl::Status Target::CheckArrived(const UniqueFd& mount) const {
  MOORING_ASSIGN_OR_RETURN(const std::string link, fd_path_(mount));
  std::array<char, PATH_MAX> place = {};
  const ssize_t size = ::readlink(link.c_str(), place.data(), place.size());
  const int unknown = size < 0 ? errno : 0;
  if (unknown == ENOENT) return absl::OkStatus();  // without proc(5) in the namespace the place is unknown
  const std::string here(place.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
  if (here == path_) return absl::OkStatus();
  // The descriptor names exactly this mount, while any path to it could be exchanged again. Lazily, because the
  // descriptor itself keeps the mount busy. Nobody else uses it yet.
  const int error = UnmountLazily(link);
  if (error == EINVAL) {
    return FailedPrecondition(
        "{} was unmounted again at once: nothing is mounted; keep other programs from unmounting it", Quote(path_));
  }
  if (error != 0) return ErrnoStatus(error, "unmount", here.empty() ? path_ : here);
  if (unknown != 0) return ErrnoStatus(unknown, "find the place of the new mount at", path_);
  return FailedPrecondition(
      "{} was moved to {} during the mount: nothing is mounted; keep other programs from renaming there", Quote(path_),
      Quote(here));
}

std::string Target::Handle() const { return fmt::format("/proc/self/fd/{}/{}", directory_.get(), name_); }

void MarkTarget(const UniqueFd& place) { ::fsetxattr(place.get(), kMark, "", 0, 0); }

bool IsMarkedTarget(const Target& target) {
  const std::string handle = target.Handle();
  if (::lgetxattr(handle.c_str(), kMark, nullptr, 0) >= 0) return true;
  if (errno == ENOENT) return false;
  const bool could_be_marked = errno == ENODATA && InFirstUserNamespace();
  return LooksMadeHere(handle, could_be_marked ? S_ISVTX : 0);
}

// Looks into a copy of the mount that contains the target. The copy lacks the mounts on it, so it shows what they
// cover.
bool CoversMarkedTarget(const Target& target) {
  const std::string handle = target.Handle();
  const UniqueFd alone(
      ::open_tree(AT_FDCWD, std::string(ParentOf(handle)).c_str(), OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC));
  if (!alone.ok()) return false;
  const std::string covered = fmt::format("/proc/self/fd/{}/{}", alone.get(), NameOf(handle));
  return ::lgetxattr(covered.c_str(), kMark, nullptr, 0) >= 0;
}

}  // namespace mooring
