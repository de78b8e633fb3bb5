#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <functional>
#include <optional>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "base/file/file_lock.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/mount/new_mount.h"
#include "mounter/path/target.h"

namespace mooring {
namespace {

absl::Status MountedAlready(const Target& target) {
  return FailedPrecondition("{} is a mount already: nothing is stacked on it", Quote(target.path()));
}

absl::Status CheckKind(const Target& target, TargetKind kind, PathInfo::Kind found, std::uint64_t size) {
  const std::string path = Quote(target.path());
  if (kind == TargetKind::kFile) {
    if (found == PathInfo::Kind::kRegular && size == 0) return absl::OkStatus();
    return FailedPrecondition("{} has to be an empty file for a block device to be bound on", path);
  }
  if (found == PathInfo::Kind::kDirectory) return absl::OkStatus();
  return FailedPrecondition("{} is not a directory", path);
}

// The target must be of the right kind, and no mount. Nothing is opened here, because an open may hang.
absl::Status CheckByName(const Target& target, TargetKind kind) {
  MOORING_ASSIGN_OR_RETURN(const Target::Status status, target.Stat());
  if (status.kind == PathInfo::Kind::kMissing) return NotFound("{} was removed again", Quote(target.path()));
  if (status.mount_root) return MountedAlready(target);
  return CheckKind(target, kind, status.kind, status.size);
}

// A bind of a directory onto itself shows the same files as before. AT_STATX_DONT_SYNC: a filesystem that hangs is not
// asked.
bool IsRootOf(const UniqueFd& mount, const struct stat& held) {
  struct statx root = {};
  if (::statx(mount.get(), "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_INO, &root) != 0) return false;
  return makedev(root.stx_dev_major, root.stx_dev_minor) == held.st_dev && root.stx_ino == held.st_ino;
}

// Checks the open and locked file or directory, which the mount goes on, whatever is at the name by then. The mount
// must hide nothing.
absl::Status CheckHeld(const Target& target, TargetKind kind, const UniqueFd& opened, const struct stat& held,
                       const UniqueFd& mount) {
  const PathInfo::Kind found = S_ISDIR(held.st_mode)   ? PathInfo::Kind::kDirectory
                               : S_ISREG(held.st_mode) ? PathInfo::Kind::kRegular
                                                       : PathInfo::Kind::kOther;
  MOORING_RETURN_IF_ERROR(CheckKind(target, kind, found, static_cast<std::uint64_t>(held.st_size)));
  if (kind == TargetKind::kFile) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(const bool empty, IsEmptyDirectory(opened, target.path()));
  if (empty || IsRootOf(mount, held)) return absl::OkStatus();
  return FailedPrecondition("{} is not empty: a mount would hide what is in it; move it away", Quote(target.path()));
}

// Empty: the target was removed or replaced.
absl::StatusOr<std::optional<UniqueFd>> LockWhatIsThere(const Target& target, TargetKind kind, const UniqueFd& mount) {
  constexpr std::chrono::seconds kPatience{2};
  absl::StatusOr<UniqueFd> fd = target.OpenToLock(kind);
  if (absl::IsNotFound(fd.status())) return std::optional<UniqueFd>();
  if (!fd.ok()) return fd.status();
  // Other errors mean a filesystem without locks: there the checks alone have to do.
  if (absl::IsAborted(LockFile(*fd, target.path(), kPatience))) {
    return Aborted("another process is mounting at {} at this moment", Quote(target.path()));
  }
  MOORING_ASSIGN_OR_RETURN(const Target::Status status, target.Stat());
  if (status.mount_root) return MountedAlready(target);
  struct stat held = {};
  if (::fstat(fd->get(), &held) != 0) return ErrnoStatus(errno, "look at", target.path());
  if (status.device != held.st_dev || status.inode != held.st_ino) return std::optional<UniqueFd>();
  MOORING_RETURN_IF_ERROR(CheckHeld(target, kind, *fd, held, mount));
  return std::optional<UniqueFd>(*std::move(fd));
}

// Among all processes one call at a time checks a target and mounts on it. Two would each find it free, and the kernel
// would stack the mounts. The lock is on the directory or file below the mount, so it holds for its other names too.
// Empty: the target was removed or replaced.
absl::StatusOr<std::optional<UniqueFd>> LockTarget(const Target& target, TargetKind kind, const UniqueFd& mount,
                                                   bool& made) {
  MOORING_ASSIGN_OR_RETURN(const bool made_now, target.Make(kind));
  made = made || made_now;
  if (!made_now) MOORING_RETURN_IF_ERROR(CheckByName(target, kind));
  return LockWhatIsThere(target, kind, mount);
}

// NOT_FOUND: another process removed the target. For example, the call that made it failed.
absl::Status AttachOnce(NewMount& mount, const Target& target, TargetKind kind, bool& made) {
  MOORING_ASSIGN_OR_RETURN(const std::optional<UniqueFd> opened, LockTarget(target, kind, mount.fd(), made));
  if (!opened) return NotFound("{} is made and removed again all the time", Quote(target.path()));
  MarkTarget(*opened);
  return mount.MoveTo(*opened, target.path());
}

absl::Status DetachAfterFailure(const Target& target, const NewMount& mount, const absl::Status& failure) {
  const absl::Status back = target.UndoAttach(mount.fd());
  if (back.ok()) return failure;
  return absl::Status(failure.code(), fmt::format("{}; and the mount stays: {}", Message(failure), Message(back)));
}

}  // namespace

absl::Status Attach(NewMount mount, const Target& target, TargetKind kind, Propagation propagation, bool recursive,
                    const std::function<absl::Status()>& last) {
  bool made = false;  // by this call, which removes it again if a later step fails
  absl::Cleanup remove = [&] {
    if (made) target.Remove().IgnoreError();
  };
  constexpr int kAttempts = 64;  // after each the target was removed by another process
  absl::Status status = AttachOnce(mount, target, kind, made);
  for (int attempt = 1; attempt < kAttempts && absl::IsNotFound(status); ++attempt) {
    status = AttachOnce(mount, target, kind, made);
  }
  if (absl::IsNotFound(status)) return WithCode(absl::StatusCode::kFailedPrecondition, status);
  MOORING_RETURN_IF_ERROR(status);
  MOORING_RETURN_IF_ERROR(target.CheckArrived(mount.fd()));
  if (propagation == Propagation::kPrivate || propagation == Propagation::kSlave) {
    status = mount.SetPropagation(propagation, recursive);
  }
  if (status.ok() && last) status = last();
  if (!status.ok()) return DetachAfterFailure(target, mount, status);
  std::move(remove).Cancel();
  return absl::OkStatus();
}

}  // namespace mooring
