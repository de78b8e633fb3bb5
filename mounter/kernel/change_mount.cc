// Mounts that stand get other flags, their filesystems other options.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mount.h>

#include <cerrno>
#include <memory>
#include <string>
#include <utility>

#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/kernel/kernel_mounter.h"
#include "mounter/mount/classic_mount.h"
#include "mounter/mount/detached_mount.h"
#include "mounter/mount/memory_mount.h"
#include "mounter/path/target.h"
#include "mounter/table/mount_table.h"

namespace mooring {
namespace {

absl::Status CheckOptions(const MountInfo& mount, const std::vector<FilesystemOption>& options) {
  if (mount.fs_type == kMemoryFsType) return CheckMemoryOptions(options);
  for (const FilesystemOption& option : options) {
    if (IsAllowed(mount.fs_type, option)) continue;
    return InvalidArgument(fmt::format("option {} is not allowed for {}", Quote(option.key), mount.fs_type));
  }
  return absl::OkStatus();
}

absl::Status SetFlags(MountApi api, const UniqueFd& mount, const std::string& path, const MountFlags& flags) {
  absl::Status status;
  switch (api) {
    case MountApi::kDetached:
      status = SetMountAttributes(mount, flags);
      break;
    case MountApi::kClassic:
      status = RemountWith(mount, flags);
      break;
  }
  return status.ok() ? status : Annotate(status, fmt::format("change the mount at {}", Quote(path)));
}

absl::Status Reconfigure(MountApi api, const UniqueFd& mount, const std::string& path,
                         const std::vector<FilesystemOption>& options) {
  const std::string what = fmt::format("change the filesystem at {}", Quote(path));
  switch (api) {
    case MountApi::kDetached:
      return Annotate(ReconfigureFilesystem(mount, options), what);
    case MountApi::kClassic: {
      // mount(2) sets the flags of the mount, too, and read-only ones for the whole filesystem: so of a copy.
      MOORING_ASSIGN_OR_RETURN(const std::unique_ptr<NewMount> copy, ClassicMount::Clone(mount, path, false));
      return Annotate(RemountFilesystem(copy->fd(), options), what);
    }
  }
  return Internal("no such mount API");
}

}  // namespace

absl::Status KernelMounter::Change(const ChangeRequest& request) {
  MOORING_ASSIGN_OR_RETURN(const Target target, Target::ResolveForMount(request.target, roots_));
  MOORING_RETURN_IF_ERROR(targets_.CheckTarget(target));
  MOORING_ASSIGN_OR_RETURN(const Target::Status status, target.Stat());
  if (!status.mount_root) return FailedPrecondition(fmt::format("nothing is mounted at {}", Quote(request.target)));
  MOORING_ASSIGN_OR_RETURN(const UniqueFd mount, OpenNoSymlinks(request.target, O_PATH));
  MOORING_RETURN_IF_ERROR(sources_.CheckBindSource(mount, request.target));
  // What can fail for reasons of the filesystem's comes first: then nothing has changed.
  if (!request.options.empty()) {
    MOORING_RETURN_IF_ERROR(sources_.CheckFilesystem(mount, request.target));
    MOORING_ASSIGN_OR_RETURN(const MountInfo info, LookUpMountOf(mount, request.target));
    MOORING_RETURN_IF_ERROR(CheckOptions(info, request.options));
    MOORING_RETURN_IF_ERROR(
        WithMountApi([&](MountApi api) { return Reconfigure(api, mount, request.target, request.options); }));
  }
  if (!request.flags) return absl::OkStatus();
  return WithMountApi([&](MountApi api) { return SetFlags(api, mount, request.target, *request.flags); });
}

}  // namespace mooring
