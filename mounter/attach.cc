#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <optional>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "base/file_lock.h"
#include "base/quote.h"
#include "base/status.h"
#include "mounter/new_mount.h"
#include "mounter/target.h"

namespace mooring {
namespace {

// What stands at the target must be of the right kind, and no mount. Nothing is opened for it: that may hang.
absl::Status CheckKind(const Target& target, TargetKind kind) {
  MOORING_ASSIGN_OR_RETURN(const Target::Status status, target.Stat());
  const std::string path = Quote(target.path());
  if (status.kind == PathInfo::Kind::kMissing) return NotFound(fmt::format("{} was removed again", path));
  if (status.mount_root) {
    return FailedPrecondition(fmt::format("{} is a mount already: nothing is stacked on it", path));
  }
  if (kind == TargetKind::kFile) {
    if (status.kind == PathInfo::Kind::kRegular && status.size == 0) return absl::OkStatus();
    return FailedPrecondition(fmt::format("{} has to be an empty file for a block device to be bound on", path));
  }
  if (status.kind == PathInfo::Kind::kDirectory) return absl::OkStatus();
  return FailedPrecondition(fmt::format("{} is not a directory", path));
}

// And it must hide nothing.
absl::Status CheckPlace(const Target& target, TargetKind kind) {
  MOORING_RETURN_IF_ERROR(CheckKind(target, kind));
  if (kind == TargetKind::kFile) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(const bool empty, target.IsEmptyDirectory());
  if (empty) return absl::OkStatus();
  return FailedPrecondition(fmt::format("{} is not empty: a mount would hide what is in it", Quote(target.path())));
}

// Empty: it is not there any more, or something else is.
absl::StatusOr<std::optional<UniqueFd>> LockWhatIsThere(const Target& target) {
  constexpr std::chrono::seconds kPatience{2};
  absl::StatusOr<UniqueFd> fd = target.OpenToLock();
  if (absl::IsNotFound(fd.status())) return std::optional<UniqueFd>();
  if (!fd.ok()) return fd.status();
  // Other errors: a filesystem without locks, where looking has to do.
  if (absl::IsAborted(LockFile(*fd, target.path(), kPatience))) {
    return Aborted(fmt::format("somebody else is mounting at {} at this moment", Quote(target.path())));
  }
  MOORING_ASSIGN_OR_RETURN(const Target::Status status, target.Stat());
  struct stat held = {};
  if (::fstat(fd->get(), &held) != 0) return ErrnoStatus(errno, "look at", target.path());
  const bool same = status.device == held.st_dev && status.inode == held.st_ino;
  return same || status.mount_root ? std::optional<UniqueFd>(*std::move(fd)) : std::optional<UniqueFd>();
}

// One call at a time looks at a target and mounts on it, of all processes: two would each find it free, and the kernel
// stacks them. The lock is that of the directory or file below the mount, so other names of it are the same. Empty:
// what was there is not there any more.
absl::StatusOr<std::optional<UniqueFd>> LockPlace(const Target& target, TargetKind kind, bool& made) {
  MOORING_ASSIGN_OR_RETURN(const bool made_now, target.Make(kind));
  made = made || made_now;
  MOORING_RETURN_IF_ERROR(CheckKind(target, kind));
  return LockWhatIsThere(target);
}

// NOT_FOUND: somebody removed it, with the lock held or before. That is anybody's right who made it: their call failed.
absl::Status AttachOnce(NewMount& mount, const Target& target, TargetKind kind, bool& made) {
  MOORING_ASSIGN_OR_RETURN(const std::optional<UniqueFd> place, LockPlace(target, kind, made));
  if (!place) return NotFound(fmt::format("{} is made and removed again all the time", Quote(target.path())));
  MOORING_RETURN_IF_ERROR(CheckPlace(target, kind));
  return mount.MoveTo(*place, target.path());
}

}  // namespace

absl::Status Attach(std::unique_ptr<NewMount> mount, const Target& target, TargetKind kind, Propagation propagation,
                    bool recursive) {
  bool made = false;  // here: to be removed again if what follows fails
  absl::Cleanup remove = [&] {
    if (made) target.Remove().IgnoreError();
  };
  constexpr int kAttempts = 64;  // each a race lost to somebody who removed it
  absl::Status status = AttachOnce(*mount, target, kind, made);
  for (int attempt = 1; attempt < kAttempts && absl::IsNotFound(status); ++attempt) {
    status = AttachOnce(*mount, target, kind, made);
  }
  if (absl::IsNotFound(status)) return WithCode(absl::StatusCode::kFailedPrecondition, status);
  MOORING_RETURN_IF_ERROR(status);
  MOORING_RETURN_IF_ERROR(target.CheckArrived(mount->fd()));
  if (propagation == Propagation::kPrivate || propagation == Propagation::kSlave) {
    if (const absl::Status failure = mount->SetPropagation(propagation, recursive); !failure.ok()) {
      target.TakeBack();
      return failure;
    }
  }
  std::move(remove).Cancel();
  return absl::OkStatus();
}

}  // namespace mooring
