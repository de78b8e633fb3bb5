#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <functional>
#include <utility>

#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/filesystem/btrfs_mount.h"
#include "mounter/image/image.h"
#include "mounter/kernel/kernel_mounter.h"
#include "mounter/loop/loop_device.h"
#include "mounter/mount/filesystem_context.h"
#include "mounter/mount/id_map.h"
#include "mounter/mount/memory_mount.h"
#include "mounter/mount/mount_program.h"
#include "mounter/mount/new_mount.h"
#include "mounter/mount/nfs_mount.h"
#include "mounter/path/target.h"
#include "mounter/superblock/superblock_guard.h"

namespace mooring {
namespace {

// The kernel looks up the device by name for the mount, so checks that the name led to the checked device. A crafted
// btrfs image must not make the kernel open another device as a part of the same filesystem.
absl::Status CheckDevice(const NewMount& mount, const MountRequest& request, const std::string& device, dev_t number) {
  struct stat root = {};
  if (::fstat(mount.fd().get(), &root) != 0) return ErrnoStatus(errno, "inspect the filesystem of", device);
  if (request.fs_type == "btrfs") {
    MOORING_ASSIGN_OR_RETURN(const UniqueFd directory, mount.OpenRoot());
    return CheckBtrfsDevice(directory, request.source, number, request.source != device);
  }
  if (root.st_dev == number) return absl::OkStatus();
  return FailedPrecondition(
      "the {} that was mounted is not on {}: it became another device meanwhile, or a {} is on none", request.fs_type,
      Quote(device), request.fs_type);
}

// Mounts the whole btrfs: somebody may have made a subvolume, which is only a part, its default.
MountRequest WithWholeTree(MountRequest request) {
  if (request.fs_type == "btrfs") request.options.push_back({"subvolid", "5"});
  return request;
}

// A filesystem in user space may answer nothing, so its mount is not looked at.
absl::StatusOr<ProgramMount> MakeFilesystemMount(const MountRequest& request, const std::string& device, dev_t number) {
  if (request.may_run_program && NeedsMountProgram(request.fs_type)) {
    if (request.subdirectory.empty()) return MakeMountByProgram(request, device, number);
    return InvalidArgument("the program mount.{} mounts all of a filesystem: leave X-mount.subdir out",
                           request.fs_type);
  }
  MOORING_ASSIGN_OR_RETURN(NewMount mount, MakeMount(WithWholeTree(request), device));
  MOORING_RETURN_IF_ERROR(CheckDevice(mount, request, device, number));
  return ProgramMount{std::move(mount), request.flags};
}

using LastStep = std::function<absl::Status()>;

absl::Status MountDevice(const MountRequest& request, const Target& target, const std::string& device, dev_t number,
                         const LastStep& last = {}) {
  MOORING_ASSIGN_OR_RETURN(ProgramMount whole, MakeFilesystemMount(request, device, number));
  const bool is_part = !request.subdirectory.empty();
  MOORING_ASSIGN_OR_RETURN(NewMount mount, is_part ? PartOf(std::move(whole.mount), request.subdirectory)
                                                   : absl::StatusOr<NewMount>(std::move(whole.mount)));
  // Only this mount becomes read-only. The superblock stays writable, to set owner and group here and for other mounts.
  if (request.new_root) MOORING_RETURN_IF_ERROR(mount.SetNewRoot(*request.new_root));
  if (request.group) MOORING_RETURN_IF_ERROR(mount.SetGroup(*request.group));
  MOORING_RETURN_IF_ERROR(mount.Set(whole.flags, Propagation::kInherit, false));
  MOORING_ASSIGN_OR_RETURN(NewMount complete, WithIds(std::move(mount), request.idmap, false));
  return Attach(std::move(complete), target, TargetKind::kDirectory, request.propagation, false, last);
}

absl::Status MountImage(const MountRequest& request, const Target& target, const SourcePolicy& sources) {
  // Holds the lock until the mount is done. Its holder knows that an unmounted loop device of this image is not in the
  // middle of another mount.
  MOORING_ASSIGN_OR_RETURN(const LockedImage image, LockImage(request.source));
  MOORING_RETURN_IF_ERROR(sources.CheckBackingFile(image.fd, request.source));
  MOORING_RETURN_IF_ERROR(CheckSuperblock(image.fd.get(), image.path, request.fs_type));
  // The kernel detaches the loop device after the last unmount. If the mount fails, closing `loop` detaches it.
  MOORING_ASSIGN_OR_RETURN(const OpenLoop loop, OpenOrAttachLoop({.label = request.label, .auto_clear = true}, image));
  if (!loop.made) MOORING_RETURN_IF_ERROR(ResizeLoopDevice(loop.info));
  return MountDevice(request, target, loop.info.device, loop.info.device_number, [&] {
    if (loop.made || loop.info.mounted) return absl::OkStatus();
    // Adopts an existing device after the mount has succeeded: until then, somebody may need it unchanged.
    return Relabel(loop, request.label, true);
  });
}

}  // namespace

absl::Status KernelMounter::Mount(const MountRequest& request) {
  if (!request.by_hand || HasOptionTable(request.fs_type)) {
    MOORING_RETURN_IF_ERROR(CheckFilesystemOptions(request.fs_type, request.options));
  }
  if (request.fs_type == kNfsFsType) return MountExport(request);
  MOORING_ASSIGN_OR_RETURN(const Target target, Target::ResolveForMount(request.target, roots_));
  MOORING_RETURN_IF_ERROR(targets_.CheckTarget(target));
  MOORING_ASSIGN_OR_RETURN(const Target::Status status, target.Stat());
  if (status.mount_root) return FailedPrecondition("{} is a mount already", Quote(request.target));
  if (request.fs_type == kMemoryFsType) return MountMemory(request, target);
  MOORING_ASSIGN_OR_RETURN(const UniqueFd source, OpenNoSymlinks(request.source, O_PATH));
  struct stat file = {};
  if (::fstat(source.get(), &file) != 0) return ErrnoStatus(errno, "inspect", request.source);
  if (S_ISREG(file.st_mode)) return MountImage(request, target, sources_);
  MOORING_RETURN_IF_ERROR(sources_.CheckBackingFile(source, request.source));
  if (S_ISBLK(file.st_mode)) {
    MOORING_ASSIGN_OR_RETURN(const UniqueFd device, OpenChecked(source, request.source, request.fs_type));
    return MountDevice(request, target, request.source, file.st_rdev);
  }
  return FailedPrecondition("{} is neither a file nor a block device", Quote(request.source));
}

}  // namespace mooring
