#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <optional>

#include "absl/cleanup/cleanup.h"
#include "base/file_lock.h"
#include "base/quote.h"
#include "base/status.h"
#include "mounter/detached.h"
#include "mounter/kernel_mounter.h"
#include "mounter/target.h"

namespace mooring {
namespace {

std::uint64_t AttributesOf(const MountFlags& flags) {
  std::uint64_t attributes = 0;
  if (flags.read_only) attributes |= MOUNT_ATTR_RDONLY;
  if (flags.nosuid) attributes |= MOUNT_ATTR_NOSUID;
  if (flags.nodev) attributes |= MOUNT_ATTR_NODEV;
  if (flags.noexec) attributes |= MOUNT_ATTR_NOEXEC;
  if (flags.nodiratime) attributes |= MOUNT_ATTR_NODIRATIME;
  if (flags.atime == Atime::kNoatime) attributes |= MOUNT_ATTR_NOATIME;
  if (flags.atime == Atime::kStrictatime) attributes |= MOUNT_ATTR_STRICTATIME;
  return attributes;
}

std::uint64_t PropagationOf(Propagation propagation) {
  switch (propagation) {
    case Propagation::kInherit:
      return 0;
    case Propagation::kPrivate:
      return MS_PRIVATE;
    case Propagation::kSlave:
      return MS_SLAVE;
    case Propagation::kShared:
      return MS_SHARED;
  }
  return 0;
}

absl::Status SetAttributes(const UniqueFd& fd, mount_attr attributes, bool recursive, std::string_view what) {
  const unsigned flags = AT_EMPTY_PATH | (recursive ? static_cast<unsigned>(AT_RECURSIVE) : 0U);
  if (::mount_setattr(fd.get(), "", flags, &attributes, sizeof(attributes)) == 0) return absl::OkStatus();
  return ErrnoStatus(errno, what);
}

// What stands at the target must be of the right kind, and no mount. Nothing is opened for it: that may hang.
absl::Status CheckKind(const Target& target, TargetKind kind) {
  MOORING_ASSIGN_OR_RETURN(const Target::Status status, target.Stat());
  const std::string path = Quote(target.path());
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

struct Place {
  UniqueFd fd;        // what is mounted on, and its lock
  bool made = false;  // here: to be removed again if what follows fails
};

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
// stacks them. The lock is that of the directory or file below the mount, so other names of it are the same.
absl::StatusOr<Place> LockPlace(const Target& target, TargetKind kind) {
  constexpr int kAttempts = 64;  // each a race lost to somebody who removed it
  bool made = false;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    MOORING_ASSIGN_OR_RETURN(const bool made_now, target.Make(kind));
    made = made || made_now;
    MOORING_RETURN_IF_ERROR(CheckKind(target, kind));
    MOORING_ASSIGN_OR_RETURN(std::optional<UniqueFd> fd, LockWhatIsThere(target));
    if (fd) return Place{*std::move(fd), made};
  }
  return FailedPrecondition(fmt::format("{} is made and removed again all the time", Quote(target.path())));
}

}  // namespace

absl::StatusOr<DetachedMount> DetachedMount::Clone(const UniqueFd& source, const std::string& path, bool recursive) {
  const unsigned flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | static_cast<unsigned>(AT_EMPTY_PATH) |
                         (recursive ? static_cast<unsigned>(AT_RECURSIVE) : 0U);
  UniqueFd tree(::open_tree(source.get(), "", flags));
  if (!tree.ok()) return ErrnoStatus(errno, "clone the mount at", path);
  return DetachedMount(std::move(tree));
}

absl::Status DetachedMount::SetFlags(const MountFlags& flags, bool recursive) {
  mount_attr attributes = {};
  attributes.attr_clr = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC |
                        MOUNT_ATTR_NODIRATIME | MOUNT_ATTR__ATIME;
  attributes.attr_set = AttributesOf(flags);
  return SetAttributes(fd_, attributes, recursive, "set the flags " + ToString(flags) + " of the new mount");
}

absl::Status DetachedMount::SetPropagation(Propagation propagation, bool recursive) {
  if (propagation == Propagation::kInherit) return absl::OkStatus();
  mount_attr attributes = {};
  attributes.propagation = PropagationOf(propagation);
  return SetAttributes(fd_, attributes, recursive, "set the propagation of the new mount");
}

absl::Status DetachedMount::SetGroup(gid_t group) {
  const UniqueFd root(::openat(fd_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!root.ok()) return ErrnoStatus(errno, "open the volume's root directory");
  struct stat status = {};
  if (::fstat(root.get(), &status) != 0) return ErrnoStatus(errno, "look at the volume's root directory");
  const mode_t mode = (status.st_mode & 07777) | S_ISGID | S_IRWXG;
  if (status.st_gid == group && (status.st_mode & 07777) == mode) return absl::OkStatus();
  if (::fchown(root.get(), static_cast<uid_t>(-1), group) != 0 || ::fchmod(root.get(), mode) != 0) {
    return ErrnoStatus(errno, fmt::format("give the volume's root directory to group {}", group));
  }
  return absl::OkStatus();
}

absl::Status DetachedMount::Attach(const Target& target, TargetKind kind, Propagation propagation, bool recursive) {
  MOORING_ASSIGN_OR_RETURN(const Place place, LockPlace(target, kind));
  absl::Cleanup remove = [&] {
    if (place.made) target.Remove().IgnoreError();
  };
  MOORING_RETURN_IF_ERROR(CheckPlace(target, kind));
  const unsigned flags = MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH;
  if (::move_mount(fd_.get(), "", place.fd.get(), "", flags) != 0) return ErrnoStatus(errno, "mount at", target.path());
  MOORING_RETURN_IF_ERROR(target.CheckArrived(fd_));
  if (propagation == Propagation::kPrivate) {
    if (const absl::Status status = SetPropagation(propagation, recursive); !status.ok()) {
      fd_.reset();  // or it holds the mount busy
      target.Unmount().IgnoreError();
      return status;
    }
  }
  std::move(remove).Cancel();
  return absl::OkStatus();
}

absl::Status KernelMounter::Bind(const BindRequest& request) {
  MOORING_ASSIGN_OR_RETURN(const Target target, Target::ResolveForMount(request.target, roots_));
  MOORING_ASSIGN_OR_RETURN(const UniqueFd source, OpenNoSymlinks(request.source, O_PATH));
  MOORING_RETURN_IF_ERROR(sources_.CheckBindSource(source, request.source));
  MOORING_ASSIGN_OR_RETURN(DetachedMount copy, DetachedMount::Clone(source, request.source, request.recursive));
  MOORING_RETURN_IF_ERROR(copy.SetPropagation(request.propagation, request.recursive));
  if (request.group) {
    MOORING_RETURN_IF_ERROR(copy.SetFlags({}, false));  // the source may be read-only, its filesystem is not
    MOORING_RETURN_IF_ERROR(copy.SetGroup(*request.group));
  }
  MOORING_RETURN_IF_ERROR(copy.SetFlags(request.flags, request.recursive));
  return copy.Attach(target, request.target_kind, request.propagation, request.recursive);
}

}  // namespace mooring
