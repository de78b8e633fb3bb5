#include "mounter/loop/attachment_lock.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/vfs.h>

#include <cerrno>

#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/loop/settle.h"

namespace mooring {
namespace {

// Lies beyond the end of every image. All versions must use the same byte.
constexpr off_t kLockedByte = off_t{1} << 62U;

struct flock ByteFor(ImageAccess access) {
  struct flock range = {};
  range.l_type = access == ImageAccess::kWrite ? F_WRLCK : F_RDLCK;
  range.l_whence = SEEK_SET;
  range.l_start = kLockedByte;
  range.l_len = 1;
  return range;
}

// FUSE tells its server of no unlock when a descriptor is closed, so the server would keep the lock for ever (fs/fuse).
bool MayBeLocked(const UniqueFd& file) {
  struct statfs filesystem = {};
  return ::fstatfs(file.get(), &filesystem) != 0 || filesystem.f_type != FUSE_SUPER_MAGIC;
}

// The filesystem knows no such locks, so nobody holds one.
bool HasNoLocks(int error) { return error == EOPNOTSUPP || error == ENOSYS || error == EINVAL; }

}  // namespace

absl::StatusOr<bool> TryLockAttachment(const UniqueFd& file, const std::string& path, ImageAccess access) {
  if (!MayBeLocked(file)) return true;
  const struct flock range = ByteFor(access);
  if (::fcntl(file.get(), F_OFD_SETLK, &range) == 0) return true;
  if (errno == EAGAIN || errno == EACCES || errno == EINTR) return false;
  if (HasNoLocks(errno)) return true;
  return ErrnoStatus(errno, "lock", path);
}

// The device of this host that is detached just now drops its lock a moment after it has gone from sysfs.
absl::Status LockAttachment(const UniqueFd& file, const std::string& path, ImageAccess access) {
  const auto lock = [&] { return TryLockAttachment(file, path, access); };
  MOORING_ASSIGN_OR_RETURN(const bool locked, AskUntilSettled(lock, [](bool is_locked) { return !is_locked; }));
  if (locked) return absl::OkStatus();
  return FailedPrecondition(
      "{} is attached elsewhere: its lock is held, and no loop device of this host has it. Unpublish and unstage the "
      "volume on the host that has it. If that host is dead, call again when the file server has freed its locks",
      Quote(path));
}

}  // namespace mooring
