#include "mounter/mount/new_mount.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/status.h"
#include "mounter/mount/classic_mount.h"
#include "mounter/mount/detached_mount.h"
#include "mounter/superblock/superblock_guard.h"
#include "mounter/sys/kernel_features.h"

namespace mooring {
namespace {

MountRequest WithErrorsOption(MountRequest request) {
  const auto names_errors = [](const FilesystemOption& option) { return option.key == "errors"; };
  if (!IsExt(request.fs_type) || std::any_of(request.options.begin(), request.options.end(), names_errors)) {
    return request;
  }
  request.options.push_back({"errors", "remount-ro"});
  return request;
}

}  // namespace

absl::Status WithMountApi(const std::function<absl::Status(MountApi)>& work) {
  if (!IsKnownMissing(KernelFeature::kMountApi)) {
    absl::Status status = work(MountApi::kDetached);
    // What ENOSYS and EPERM become, base/status.h.
    if (!absl::IsUnimplemented(status) && !absl::IsInternal(status)) return status;
    if (!TurnsOutMissing(KernelFeature::kMountApi)) return status;
  }
  return work(MountApi::kClassic);
}

absl::StatusOr<std::unique_ptr<NewMount>> MakeMount(MountApi api, const MountRequest& request,
                                                    const std::string& device) {
  switch (api) {
    case MountApi::kDetached:
      return DetachedMount::Make(WithErrorsOption(request), device);
    case MountApi::kClassic:
      return ClassicMount::Make(WithErrorsOption(request), device);
  }
  return Internal("no such mount API");
}

absl::StatusOr<std::unique_ptr<NewMount>> CloneMount(MountApi api, const UniqueFd& source, const std::string& path,
                                                     bool recursive) {
  switch (api) {
    case MountApi::kDetached:
      return DetachedMount::Clone(source, path, recursive);
    case MountApi::kClassic:
      return ClassicMount::Clone(source, path, recursive);
  }
  return Internal("no such mount API");
}

absl::StatusOr<UniqueFd> OpenRoot(const NewMount& mount) {
  UniqueFd root(::openat(mount.fd().get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!root.ok()) return ErrnoStatus(errno, "open the root directory of the new mount");
  return root;
}

absl::Status SetGroup(const NewMount& mount, gid_t group) {
  MOORING_ASSIGN_OR_RETURN(const UniqueFd root, OpenRoot(mount));
  struct stat status = {};
  if (::fstat(root.get(), &status) != 0) return ErrnoStatus(errno, "look at the volume's root directory");
  const mode_t mode = (status.st_mode & 07777) | S_ISGID | S_IRWXG;
  if (status.st_gid == group && (status.st_mode & 07777) == mode) return absl::OkStatus();
  const std::string what = fmt::format("give the volume's root directory to group {}", group);
  if (::fchown(root.get(), static_cast<uid_t>(-1), group) != 0 || ::fchmod(root.get(), mode) != 0 ||
      ::fstat(root.get(), &status) != 0) {
    return ErrnoStatus(errno, what);
  }
  if ((status.st_mode & S_ISGID) != 0) return absl::OkStatus();
  return FailedPrecondition(what +
                            ": the kernel has left out its set-group-id bit: the plugin needs CAP_FSETID for that");
}

absl::Status FilesystemError(int error, std::string detail, const MountRequest& request) {
  if (error == ENODEV) {
    return FailedPrecondition(fmt::format("the kernel knows no filesystem {}: is a module missing?", request.fs_type));
  }
  absl::Status status = ErrnoStatus(error, fmt::format("mount the {} filesystem of", request.fs_type), request.source);
  // These are about the filesystem or its options, not about the request's form, and no surprise.
  if (error == EINVAL || error == EUCLEAN || error == EEXIST)
    status = WithCode(absl::StatusCode::kFailedPrecondition, status);
  if (detail.empty() && error == EUCLEAN)
    detail = "the filesystem is damaged: keep a copy, then check it (e2fsck, xfs_repair, btrfs check)";
  if (detail.empty() && error == EEXIST) detail = "another filesystem with its UUID is in use: is it a copy of that?";
  if (detail.empty() && error == EBUSY) detail = "it is mounted read-only (after an error?) or in use in another way";
  if (detail.empty()) detail = "the kernel's log may say more";
  return absl::Status(status.code(), fmt::format("{} ({})", Message(status), detail));
}

}  // namespace mooring
