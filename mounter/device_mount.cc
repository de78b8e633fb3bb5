#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/quote.h"
#include "base/status.h"
#include "mounter/detached.h"
#include "mounter/image.h"
#include "mounter/kernel_mounter.h"
#include "mounter/loop_device.h"
#include "mounter/target.h"

namespace mooring {
namespace {

// What the filesystem told its context, one message a read: "e ext4: …".
std::string ContextLog(const UniqueFd& context) {
  std::string log;
  std::array<char, 512> line = {};
  for (ssize_t got = 0; (got = ::read(context.get(), line.data(), line.size())) > 0;) {
    if (!log.empty()) log += "; ";
    log.append(line.data(), static_cast<std::size_t>(got));
    while (!log.empty() && log.back() == '\n') log.pop_back();
  }
  return log;
}

absl::Status ContextError(int error, const UniqueFd& context, const MountRequest& request) {
  absl::Status status = ErrnoStatus(error, fmt::format("mount the {} filesystem of", request.fs_type), request.source);
  // These are about the filesystem or its options, not about the request's form, and no surprise.
  if (error == EINVAL || error == EUCLEAN) status = WithCode(absl::StatusCode::kFailedPrecondition, status);
  std::string detail = ContextLog(context);
  if (detail.empty() && error == EUCLEAN)
    detail = "the filesystem is damaged: keep a copy, then check it (e2fsck, xfs_repair)";
  if (detail.empty() && error == EBUSY) detail = "it is mounted read-only (after an error?) or in use in another way";
  if (detail.empty()) detail = "the kernel's log may say more";
  return absl::Status(status.code(), fmt::format("{} ({})", Message(status), detail));
}

absl::Status Configure(const UniqueFd& context, const MountRequest& request, const std::string& device) {
  if (::fsconfig(context.get(), FSCONFIG_SET_STRING, "source", device.c_str(), 0) != 0) {
    return ContextError(errno, context, request);
  }
  for (const FilesystemOption& option : request.options) {
    const int done = option.value
                         ? ::fsconfig(context.get(), FSCONFIG_SET_STRING, option.key.c_str(), option.value->c_str(), 0)
                         : ::fsconfig(context.get(), FSCONFIG_SET_FLAG, option.key.c_str(), nullptr, 0);
    if (done != 0) return Annotate(ContextError(errno, context, request), "option " + option.key);
  }
  if (::fsconfig(context.get(), FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) != 0) {
    return ContextError(errno, context, request);
  }
  return absl::OkStatus();
}

absl::Status CheckOptions(const MountRequest& request) {
  for (const FilesystemOption& option : request.options) {
    if (!IsAllowed(request.fs_type, option)) {
      return InvalidArgument(fmt::format("option {} is not allowed for {}", Quote(option.key), request.fs_type));
    }
  }
  return absl::OkStatus();
}

// The name is looked up once more for the mount: it has to lead to the device that was checked.
absl::Status CheckDevice(const DetachedMount& mount, const std::string& device, dev_t number) {
  struct stat root = {};
  if (::fstat(mount.fd().get(), &root) != 0) return ErrnoStatus(errno, "look at the filesystem of", device);
  // Some filesystems have a number of their own, of no device.
  if (root.st_dev == number || major(root.st_dev) == 0) return absl::OkStatus();
  return FailedPrecondition(fmt::format("{} became another device while it was mounted", Quote(device)));
}

absl::Status MountDevice(const MountRequest& request, const Target& target, const std::string& device, dev_t number) {
  MOORING_ASSIGN_OR_RETURN(DetachedMount mount, DetachedMount::Make(request, device));
  MOORING_RETURN_IF_ERROR(CheckDevice(mount, device, number));
  // The superblock stays writable, so that the group can be set here and another mount of it may write; this mount may
  // not.
  if (request.group) MOORING_RETURN_IF_ERROR(mount.SetGroup(*request.group));
  MOORING_RETURN_IF_ERROR(mount.SetFlags(request.flags, false));
  MOORING_RETURN_IF_ERROR(mount.SetPropagation(request.propagation, false));
  return mount.Attach(target, TargetKind::kDirectory, request.propagation, false);
}

absl::Status MountImage(const MountRequest& request, const Target& target, const SourcePolicy& sources) {
  // Held until it is mounted: who has the lock can tell a device that is going to be mounted from one that is going.
  MOORING_ASSIGN_OR_RETURN(const LockedImage image, LockImage(request.source));
  MOORING_RETURN_IF_ERROR(sources.CheckBackingFile(image.fd, request.source));
  // The loop device goes with the last mount, or, if none comes about, with `loop`.
  MOORING_ASSIGN_OR_RETURN(const OpenLoop loop, OpenOrAttachLoop({.label = request.label, .auto_clear = true}, image));
  if (!loop.made) MOORING_RETURN_IF_ERROR(ResizeLoopDevice(loop.info));
  MOORING_RETURN_IF_ERROR(MountDevice(request, target, loop.info.device, loop.info.device_number));
  if (loop.made || loop.info.mounted) return absl::OkStatus();
  // One that was there, or about to go: now it is this mount's. Not before, for somebody may need it as it was.
  const absl::Status ours = Relabel(loop, request.label, true);
  if (!ours.ok()) target.Unmount().IgnoreError();
  return ours;
}

}  // namespace

absl::StatusOr<DetachedMount> DetachedMount::Make(const MountRequest& request, const std::string& device) {
  const UniqueFd context(::fsopen(request.fs_type.c_str(), FSOPEN_CLOEXEC));
  if (!context.ok() && errno == ENODEV) {
    return FailedPrecondition(fmt::format("the kernel knows no filesystem {}: is a module missing?", request.fs_type));
  }
  if (!context.ok()) return ErrnoStatus(errno, "use the filesystem type", request.fs_type);
  MOORING_RETURN_IF_ERROR(Configure(context, request, device));
  UniqueFd mount(::fsmount(context.get(), FSMOUNT_CLOEXEC, 0));
  if (!mount.ok()) return ErrnoStatus(errno, "make a mount of", request.source);
  return DetachedMount(std::move(mount));
}

absl::Status KernelMounter::Mount(const MountRequest& request) {
  MOORING_RETURN_IF_ERROR(CheckOptions(request));
  MOORING_ASSIGN_OR_RETURN(const Target target, Target::ResolveForMount(request.target, roots_));
  MOORING_ASSIGN_OR_RETURN(const Target::Status status, target.Stat());
  if (status.mount_root) return FailedPrecondition(fmt::format("{} is a mount already", Quote(request.target)));
  MOORING_ASSIGN_OR_RETURN(const UniqueFd source, OpenNoSymlinks(request.source, O_PATH));
  struct stat file = {};
  if (::fstat(source.get(), &file) != 0) return ErrnoStatus(errno, "look at", request.source);
  if (S_ISREG(file.st_mode)) return MountImage(request, target, sources_);
  MOORING_RETURN_IF_ERROR(sources_.CheckBackingFile(source, request.source));
  if (S_ISBLK(file.st_mode)) return MountDevice(request, target, request.source, file.st_rdev);
  return FailedPrecondition(fmt::format("{} is neither a file nor a block device", Quote(request.source)));
}

}  // namespace mooring
