#include "mounter/image/image.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>

#include "base/file/file_lock.h"
#include "base/file/path.h"
#include "base/host.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/path/target.h"

namespace mooring {
namespace {

// Matches exactly, so that no file that a person put there is taken for a leftover.
bool IsLeftover(std::string_view name, std::string_view image, std::string_view suffix) {
  constexpr std::size_t kDigits = 8;
  const std::string beginning = fmt::format("{}{}-", image, suffix);
  if (!name.starts_with(beginning)) return false;
  const std::string_view digits = name.substr(beginning.size());
  return digits.size() == kDigits && digits.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::string OpenedPath(const UniqueFd& file) { return fmt::format("/proc/self/fd/{}", file.get()); }

// Not the byte of an attachment (mounter/loop/attachment_lock.h). All versions must use the same one.
constexpr off_t kLockedByte = (off_t{1} << 62U) + 1;

// FUSE does not tell its server that a lock ended with its descriptor. A block device that was open for writing makes
// udev read it again when it is closed.
absl::StatusOr<bool> LocksItsBytes(const UniqueFd& file, const std::string& path) {
  struct stat status = {};
  if (::fstat(file.get(), &status) != 0) return ErrnoStatus(errno, "look at", path);
  if (!S_ISREG(status.st_mode)) return false;
  struct statfs filesystem = {};
  if (::fstatfs(file.get(), &filesystem) != 0) return ErrnoStatus(errno, "look at the filesystem of", path);
  return filesystem.f_type != FUSE_SUPER_MAGIC;
}

absl::StatusOr<bool> IsSameFile(const UniqueFd& a, const UniqueFd& b, const std::string& path) {
  struct stat of_a = {}, of_b = {};
  if (::fstat(a.get(), &of_a) != 0 || ::fstat(b.get(), &of_b) != 0) return ErrnoStatus(errno, "look at", path);
  return of_a.st_dev == of_b.st_dev && of_a.st_ino == of_b.st_ino;
}

// Below a read-only mount, the descriptor is only for reading, and LockByte takes a shared lock.
absl::StatusOr<UniqueFd> Writable(UniqueFd file, const std::string& path) {
  if ((::fcntl(file.get(), F_GETFL) & O_ACCMODE) == O_RDWR) return file;
  UniqueFd writable(::open(OpenedPath(file).c_str(), O_RDWR | O_CLOEXEC));
  if (writable.ok()) return writable;
  return errno == EROFS ? absl::StatusOr<UniqueFd>(std::move(file)) : ErrnoStatus(errno, "open", path);
}

absl::Status IsThere(const std::string& path) {
  return AlreadyExists("{} is there already: nothing was copied", Quote(path));
}

// Returns 0 or the errno. Some filesystems support no flags of a rename: there a hard link never replaces a file.
int RenameToNew(int directory, const std::string& from, const std::string& to) {
  if (::renameat2(directory, from.c_str(), directory, to.c_str(), RENAME_NOREPLACE) == 0) return 0;
  if (errno != EINVAL && errno != ENOSYS) return errno;
  if (::linkat(directory, from.c_str(), directory, to.c_str(), 0) != 0) return errno;
  if (::unlinkat(directory, from.c_str(), 0) == 0) return 0;
  const int error = errno;
  ::unlinkat(directory, to.c_str(), 0);  // CheckOneName refuses a file with two names
  return error;
}

}  // namespace

absl::Status CheckOneName(const struct stat& status, const std::string& path) {
  if (!S_ISREG(status.st_mode) || status.st_nlink <= 1) return absl::OkStatus();
  return FailedPrecondition(
      "{} is not used: it has {} names (hard links), and an image has one; find the others (find {} -xdev -samefile "
      "{}), and remove all names but this one",
      Quote(path), status.st_nlink, ParentOf(path), path);
}

absl::StatusOr<UniqueFd> LockOpenImage(UniqueFd file, const std::string& path, std::chrono::milliseconds patience) {
  MOORING_ASSIGN_OR_RETURN(const bool locks_byte, LocksItsBytes(file, path));
  if (!locks_byte) {
    MOORING_RETURN_IF_ERROR(LockFile(file, path, patience));
    return file;
  }
  MOORING_ASSIGN_OR_RETURN(UniqueFd writable, Writable(std::move(file), path));
  MOORING_RETURN_IF_ERROR(LockByte(writable, kLockedByte, path, patience));
  return writable;
}

absl::StatusOr<UniqueFd> OpenUnderLock(const std::string& path, const std::function<absl::StatusOr<UniqueFd>()>& open,
                                       std::chrono::milliseconds patience) {
  for (;;) {
    MOORING_ASSIGN_OR_RETURN(UniqueFd opened, open());
    MOORING_ASSIGN_OR_RETURN(UniqueFd fd, LockOpenImage(std::move(opened), path, patience));
    // NFS asks its server for the path only in open(2): lstat(2) answers from a cache.
    MOORING_ASSIGN_OR_RETURN(const UniqueFd now, open());
    MOORING_ASSIGN_OR_RETURN(const bool is_there, IsSameFile(fd, now, path));
    if (is_there) return fd;
  }
}

absl::StatusOr<LockedImage> LockImage(const std::string& path, std::chrono::milliseconds patience) {
  const auto open = [&path]() -> absl::StatusOr<UniqueFd> {
    MOORING_ASSIGN_OR_RETURN(UniqueFd fd, OpenNoSymlinks(path, O_RDONLY | O_NONBLOCK));  // a FIFO would never open
    struct stat status = {};
    if (::fstat(fd.get(), &status) != 0) return ErrnoStatus(errno, "look at", path);
    if (S_ISREG(status.st_mode) || S_ISBLK(status.st_mode)) return fd;
    return FailedPrecondition("{} is neither a file nor a block device", Quote(path));
  };
  LockedImage image;
  image.path = path;
  MOORING_ASSIGN_OR_RETURN(image.fd, OpenUnderLock(path, open, patience));
  if (::fstat(image.fd.get(), &image.status) != 0) return ErrnoStatus(errno, "look at", path);
  MOORING_RETURN_IF_ERROR(CheckOneName(image.status, path));
  return image;
}

absl::StatusOr<UniqueFd> Reopen(const LockedImage& image, int flags) {
  UniqueFd fd(::open(OpenedPath(image.fd).c_str(), flags | O_CLOEXEC));
  if (!fd.ok()) return ErrnoStatus(errno, "open", image.path);
  return fd;
}

std::string UndoFileOf(const std::string& image) { return image + std::string(kUndoSuffix); }

absl::StatusOr<bool> HasUndoFile(const std::string& image) {
  const std::string undo = UndoFileOf(image);
  struct stat status = {};
  if (::lstat(undo.c_str(), &status) == 0) return true;
  if (errno == ENOENT) return false;
  return ErrnoStatus(errno, "look for", undo);
}

bool IsFormattingLeftover(std::string_view name, std::string_view image) {
  return IsLeftover(name, image, kFormattingSuffix);
}

bool IsCopyingLeftover(std::string_view name, std::string_view image) {
  return IsLeftover(name, image, kCopyingSuffix);
}

absl::Status GiveTo(const struct stat& owner, const UniqueFd& file, const std::string& path) {
  if (owner.st_uid == ::geteuid() || ::fchown(file.get(), owner.st_uid, owner.st_gid) == 0) return absl::OkStatus();
  return ErrnoStatus(errno, fmt::format("give to user {}", owner.st_uid), path);
}

NewFile::NewFile(std::string path, UniqueFd directory)
    : path_(std::move(path)),
      suffix_(fmt::format("{}-{}", kCopyingSuffix, RandomHex(4))),
      directory_(std::move(directory)) {}

NewFile::~NewFile() {
  if (!name_.empty()) ::unlinkat(directory_.get(), name_.c_str(), 0);
}

absl::StatusOr<std::unique_ptr<NewFile>> NewFile::Make(const std::string& path, const SourcePolicy& policy) {
  const std::string parent(ParentOf(path));
  MOORING_ASSIGN_OR_RETURN(UniqueFd directory, OpenNoSymlinks(parent, O_RDONLY | O_DIRECTORY));
  MOORING_RETURN_IF_ERROR(policy.CheckDirectory(directory, parent));
  std::unique_ptr<NewFile> file(new NewFile(path, std::move(directory)));
  MOORING_RETURN_IF_ERROR(file->CheckNameFree());
  const std::string name(NameOf(file->working_path()));
  file->fd_.reset(
      ::openat(file->directory_.get(), name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file->fd_.ok()) return ErrnoStatus(errno, "make", file->working_path());
  file->name_ = name;
  struct stat owner = {};
  if (::fstat(file->directory_.get(), &owner) != 0) return ErrnoStatus(errno, "look at", parent);
  MOORING_RETURN_IF_ERROR(GiveTo(owner, file->fd_, file->working_path()));
  MOORING_ASSIGN_OR_RETURN(file->fd_,
                           LockOpenImage(std::move(file->fd_), file->working_path(), std::chrono::milliseconds(0)));
  return file;
}

absl::Status NewFile::CheckNameFree() const {
  struct stat status = {};
  if (::fstatat(directory_.get(), std::string(NameOf(path_)).c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0) {
    return IsThere(path_);
  }
  return errno == ENOENT ? absl::OkStatus() : ErrnoStatus(errno, "look at", path_);
}

absl::Status NewFile::Publish() {
  const std::string name(NameOf(path_));
  const int error = RenameToNew(directory_.get(), name_, name);
  if (error == EEXIST) return IsThere(path_);
  if (error != 0) return ErrnoStatus(error, "put the copy at", path_);
  name_ = name;
  return absl::OkStatus();
}

absl::Status NewFile::SyncDirectory() const {
  if (::fsync(directory_.get()) == 0) return absl::OkStatus();
  return ErrnoStatus(errno, "sync the directory", std::string(ParentOf(path_)));
}

}  // namespace mooring
