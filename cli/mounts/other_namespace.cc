#include "cli/mounts/other_namespace.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/file/path.h"
#include "base/status.h"
#include "mounter/mount/id_map.h"
#include "mounter/mount/new_mount.h"
#include "mounter/path/target.h"

namespace mooring {
namespace {

const std::vector<std::string> kEverywhere{"/"};

// EINVAL: the target is not a mount, or the mount is locked, mount_namespaces(7). ENOENT: the target does not exist.
absl::Status UnmountHere(const UniqueFd& parent, const std::string& name, const std::string& path) {
  if (::fchdir(parent.get()) != 0) return ErrnoStatus(errno, "enter the directory above", path);
  if (::umount2(name.c_str(), UMOUNT_NOFOLLOW) == 0 || errno == EINVAL || errno == ENOENT) return absl::OkStatus();
  return ErrnoStatus(errno, "unmount", path);
}

absl::Status RemoveHere(const UniqueFd& parent, const std::string& name, const std::string& path) {
  struct stat status = {};
  if (::fstatat(parent.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
    return errno == ENOENT ? absl::OkStatus() : ErrnoStatus(errno, "look at", path);
  }
  const bool empty_file = S_ISREG(status.st_mode) && status.st_size == 0;
  if (!S_ISDIR(status.st_mode) && !empty_file) {
    return FailedPrecondition("{} is not removed: it is neither a directory nor an empty file", path);
  }
  if (::unlinkat(parent.get(), name.c_str(), empty_file ? 0 : AT_REMOVEDIR) == 0) return absl::OkStatus();
  return ErrnoStatus(errno, "remove (only if it is empty)", path);
}

}  // namespace

absl::StatusOr<UniqueFd> OpenMountNamespace(pid_t pid) {
  const std::string path = pid == 0 ? "/proc/self/ns/mnt" : fmt::format("/proc/{}/ns/mnt", pid);
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.ok()) return fd;
  if (errno == ENOENT || errno == ESRCH) return NotFound("there is no process {}", pid);
  return ErrnoStatus(errno, fmt::format("open the mount namespace of process {}", pid));
}

absl::Status EnterMountNamespace(const UniqueFd& mount_namespace) {
  if (::setns(mount_namespace.get(), CLONE_NEWNS) == 0) return absl::OkStatus();
  return ErrnoStatus(errno, "enter the mount namespace");
}

absl::Status BindAcross(const BindRequest& request, const UniqueFd& source, const UniqueFd& target) {
  const UniqueFd own_fds(::open("/proc/self/fd", O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!own_fds.ok()) return ErrnoStatus(errno, "open", "/proc/self/fd");
  // In the other namespace /proc may be missing, or belong to another pid namespace.
  const FdPath fd_path = [&own_fds](const UniqueFd& fd) -> absl::StatusOr<std::string> {
    if (::fchdir(own_fds.get()) != 0) return ErrnoStatus(errno, "enter /proc/self/fd");
    return fmt::format("{}", fd.get());
  };
  UniqueFd ids;
  if (!request.idmap.empty()) {
    MOORING_ASSIGN_OR_RETURN(ids, OpenIdMap(request.idmap));
  }
  MOORING_RETURN_IF_ERROR(EnterMountNamespace(source));
  MOORING_ASSIGN_OR_RETURN(const UniqueFd place, OpenNoSymlinks(request.source, O_PATH));
  MOORING_ASSIGN_OR_RETURN(NewMount copy, CloneMount(place, request.source, request.recursive));
  MOORING_RETURN_IF_ERROR(copy.Set(request.flags, request.propagation, request.recursive));
  if (ids.ok()) MOORING_RETURN_IF_ERROR(copy.MapIds(ids, request.recursive));
  MOORING_RETURN_IF_ERROR(EnterMountNamespace(target));
  MOORING_ASSIGN_OR_RETURN(const Target at, Target::ResolveForMount(request.target, kEverywhere, fd_path));
  return Attach(std::move(copy), at, request.target_kind, request.propagation, request.recursive);
}

absl::Status UnmountIn(const UniqueFd& mount_namespace, const UnmountRequest& request) {
  MOORING_ASSIGN_OR_RETURN(const std::string path, NormalisePath("path", request.target));
  MOORING_RETURN_IF_ERROR(EnterMountNamespace(mount_namespace));
  absl::StatusOr<UniqueFd> parent = OpenNoSymlinks(std::string(ParentOf(path)), O_PATH | O_DIRECTORY);
  if (absl::IsNotFound(parent.status())) return absl::OkStatus();
  if (!parent.ok()) return parent.status();
  const std::string name(NameOf(path));
  MOORING_RETURN_IF_ERROR(UnmountHere(*parent, name, path));
  return request.remove_target ? RemoveHere(*parent, name, path) : absl::OkStatus();
}

}  // namespace mooring
