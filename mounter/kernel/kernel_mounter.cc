#include "mounter/kernel/kernel_mounter.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>

#include <cerrno>
#include <system_error>

#include "base/file/path.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/copy/copy.h"
#include "mounter/filesystem/filesystem.h"
#include "mounter/image/image.h"
#include "mounter/loop/device_holder.h"
#include "mounter/loop/loop_device.h"
#include "mounter/loop/loop_mounted.h"
#include "mounter/mount/new_mount.h"
#include "mounter/path/target.h"
#include "mounter/table/mount_table.h"
#include "mounter/table/mount_without_table.h"

namespace mooring {
namespace {

// For calls that only read: they also take loop devices and mounts of the host.
const std::vector<std::string> kEverywhere = {"/"};

StatsInfo FromStatvfs(const struct statvfs& status) {
  StatsInfo stats;
  stats.bytes.total = status.f_blocks * status.f_frsize;
  stats.bytes.used = (status.f_blocks - status.f_bfree) * status.f_frsize;
  stats.bytes.available = status.f_bavail * status.f_frsize;
  stats.inodes.total = status.f_files;
  stats.inodes.used = status.f_files - status.f_ffree;
  stats.inodes.available = status.f_favail;
  return stats;
}

absl::StatusOr<bool> IsEmpty(const Target& target, const Target::Status& status) {
  if (status.kind == PathInfo::Kind::kRegular) return status.size == 0;
  // Does not look into a mount, because its filesystem may hang.
  if (status.kind == PathInfo::Kind::kDirectory && !status.mount_root) return target.IsEmptyDirectory();
  return false;
}

// Without statmount(2), because of the kernel or a seccomp profile.
absl::StatusOr<MountInfo> MountOnOlderKernel(const Target& target, const Target::Status& status,
                                             const SourcePolicy& sources) {
  if (status.error == 0) {
    const UniqueFd place(::open(target.Handle().c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    if (!place.ok()) return ErrnoStatus(errno, "open", target.path());
    const auto is_volume = [&sources](dev_t device) { return sources.IsVolumeDevice(device); };
    MOORING_ASSIGN_OR_RETURN(std::optional<MountInfo> known, MountWithoutTable(place, target.path(), is_volume));
    if (known && !status.unique_id && known->id != status.mount_id) {
      return NotFound("another mount is at {} by now", Quote(target.path()));
    }
    if (known) return *std::move(known);
  }
  std::uint64_t id = status.mount_id;
  if (status.unique_id) {
    MOORING_ASSIGN_OR_RETURN(id, target.TableMountId());
  }
  return LookUpMount(id, false);
}

absl::StatusOr<MountInfo> MountAt(const Target& target, const Target::Status& status, const SourcePolicy& sources) {
  if (status.unique_id) {
    absl::StatusOr<MountInfo> info = LookUpMount(status.mount_id, true);
    if (!absl::IsUnimplemented(info.status())) return info;
  }
  return MountOnOlderKernel(target, status, sources);
}

// NOT_FOUND: the target was unmounted or removed between two calls.
absl::StatusOr<PathInfo> InspectOnce(const Target& target, const SourcePolicy& sources) {
  MOORING_ASSIGN_OR_RETURN(const Target::Status status, target.Stat());
  PathInfo info;
  info.kind = status.kind;
  if (status.kind == PathInfo::Kind::kMissing) return info;
  info.device = status.kind == PathInfo::Kind::kBlockDevice ? status.rdev : status.device;
  info.inode = status.inode;
  MOORING_ASSIGN_OR_RETURN(info.empty, IsEmpty(target, status));
  if (status.mount_root) {
    MOORING_ASSIGN_OR_RETURN(info.mount, MountAt(target, status, sources));
    // The number of a filesystem without a device has the major number 0. A broken filesystem gives no number.
    if (status.error != 0 || major(info.device) == 0) info.device = info.mount->device;
  }
  if (status.error != 0) info.failure = std::generic_category().message(status.error);
  const bool mounted = info.mount && info.mount->device == info.device;
  MOORING_ASSIGN_OR_RETURN(info.loop, LoopByNumber(info.device, mounted));
  return info;
}

absl::StatusOr<PathInfo> Inspect(const Target& target, const SourcePolicy& sources) {
  constexpr int kAttempts = 64;  // each is a lost race with a mount or unmount here
  absl::StatusOr<PathInfo> info = InspectOnce(target, sources);
  for (int attempt = 1; attempt < kAttempts && absl::IsNotFound(info.status()); ++attempt) {
    info = InspectOnce(target, sources);
  }
  return info;
}

}  // namespace

absl::Status KernelMounter::Unmount(const UnmountRequest& request) {
  absl::StatusOr<Target> target = Target::Resolve(request.target, roots_);
  if (absl::IsNotFound(target.status())) return absl::OkStatus();  // the parent does not exist
  if (!target.ok()) return target.status();
  MOORING_RETURN_IF_ERROR(targets_.CheckTarget(*target));
  MOORING_ASSIGN_OR_RETURN(const Target::Status status, target->Stat());
  if (status.mount_root) {
    MOORING_ASSIGN_OR_RETURN(const PathInfo info, Inspect(*target, sources_));
    if (info.mount) MOORING_RETURN_IF_ERROR(sources_.CheckUnmount(*target, info));
  }
  MOORING_RETURN_IF_ERROR(target->Unmount());
  if (!request.remove_target || status.kind == PathInfo::Kind::kMissing) return absl::OkStatus();
  if (status.mount_root || targets_.MayRemove(*target)) return target->Remove();
  return target->CheckRemovable();  // keeps a target of somebody else, and reports one that cannot be a target
}

absl::StatusOr<PathInfo> KernelMounter::Find(const std::string& path) {
  absl::StatusOr<Target> target = Target::Resolve(path, kEverywhere);
  if (absl::IsNotFound(target.status())) return PathInfo();
  if (!target.ok()) return target.status();
  return Inspect(*target, sources_);
}

absl::StatusOr<std::vector<ListedMount>> KernelMounter::List(const std::string& path) { return ListMounts(path); }

absl::StatusOr<StatsInfo> KernelMounter::Stats(const std::string& path) {
  MOORING_ASSIGN_OR_RETURN(const Target target, Target::Resolve(path, kEverywhere));
  MOORING_ASSIGN_OR_RETURN(const Target::Status status, target.Stat());
  if (status.kind == PathInfo::Kind::kBlockDevice) {
    StatsInfo stats;
    MOORING_ASSIGN_OR_RETURN(stats.bytes.total, BlockDeviceBytes(status.rdev));
    return stats;
  }
  // For a plain directory, statvfs(3) would give the figures of the host's filesystem.
  if (!status.mount_root || status.kind != PathInfo::Kind::kDirectory) {
    return NotFound("nothing is mounted at {}", Quote(path));
  }
  struct statvfs filesystem = {};
  if (::statvfs(target.Handle().c_str(), &filesystem) != 0) return ErrnoStatus(errno, "read the usage of", path);
  StatsInfo stats = FromStatvfs(filesystem);
  const UniqueFd root(::open(target.Handle().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (root.ok()) stats.unused_bytes = UnusedBytes(root, path);
  return stats;
}

absl::StatusOr<LoopInfo> KernelMounter::AttachLoop(const AttachLoopRequest& request) {
  MOORING_ASSIGN_OR_RETURN(const LockedImage image, LockImage(request.backing_file));
  MOORING_RETURN_IF_ERROR(sources_.CheckBackingFile(image.fd, request.backing_file));
  MOORING_ASSIGN_OR_RETURN(
      const OpenLoop loop,
      OpenOrAttachLoop({.label = request.label, .read_only = request.read_only, .auto_clear = false}, image));
  if (loop.info.auto_clear && loop.info.mounted) {
    return FailedPrecondition("{} is in use as a filesystem through {}", Quote(request.backing_file), loop.info.device);
  }
  LoopInfo info = loop.info;
  if (info.auto_clear) {  // about to be detached, and not being mounted: a mount would hold the lock of the image
    MOORING_RETURN_IF_ERROR(Relabel(loop, request.label, false));
    info.label = request.label;
    info.auto_clear = false;
  }
  if (!loop.made) MOORING_RETURN_IF_ERROR(ResizeLoopDevice(info));
  if (!request.held) {
    if (!loop.made) MOORING_RETURN_IF_ERROR(ReleaseDevice(info.device_number));
    return info;
  }
  const absl::Status held = HoldDevice(info);
  if (!held.ok() && loop.made) DetachLoopDevice(info).IgnoreError();
  if (!held.ok()) return held;
  return info;
}

absl::Status KernelMounter::DetachLoop(const LoopInfo& loop) { return DetachLoopDevice(loop); }

absl::Status KernelMounter::ResizeLoop(const LoopInfo& loop) { return ResizeLoopDevice(loop); }

absl::StatusOr<std::vector<LoopInfo>> KernelMounter::FindLoops(const std::string& backing_file) {
  MOORING_ASSIGN_OR_RETURN(std::vector<LoopInfo> loops, ListLoops());
  if (!backing_file.empty()) {
    struct stat file = {};
    if (::stat(backing_file.c_str(), &file) != 0) return ErrnoStatus(errno, "inspect", backing_file);
    MOORING_RETURN_IF_ERROR(CheckNoneHangs(loops, backing_file));
    std::erase_if(loops, [&file](const LoopInfo& loop) { return !IsOver(loop, file); });
  }
  MOORING_RETURN_IF_ERROR(AskWhetherMounted(loops));
  return loops;
}

absl::StatusOr<FilesystemInfo> KernelMounter::Probe(const std::string& path) { return ProbeFilesystem(path); }

absl::Status KernelMounter::Format(const std::string& path, const std::string& fs_type) {
  return FormatFilesystem(path, fs_type);
}

absl::Status KernelMounter::Check(const std::string& path, const std::string& fs_type) {
  return CheckFilesystem(path, fs_type);
}

absl::Status KernelMounter::Grow(const std::string& path, const std::string& fs_type) {
  MOORING_ASSIGN_OR_RETURN(const PathInfo info, Find(path));
  if (info.kind == PathInfo::Kind::kMissing) return NotFound("{} does not exist", Quote(path));
  if (info.kind != PathInfo::Kind::kDirectory) return GrowUnmounted(path, fs_type, sources_);
  // A plain directory lies on a filesystem of the host.
  if (!info.mount) return FailedPrecondition("{} is not a mount: nothing is grown", Quote(path));
  // Uses a writable copy of the mount: the kernel refuses to grow through a read-only mount, and there may be no other.
  MOORING_ASSIGN_OR_RETURN(const UniqueFd place, OpenNoSymlinks(path, O_PATH | O_DIRECTORY));
  MOORING_RETURN_IF_ERROR(sources_.CheckFilesystem(place, path));
  MOORING_ASSIGN_OR_RETURN(const std::uint64_t bytes, BlockDeviceBytes(info.device));
  MOORING_ASSIGN_OR_RETURN(NewMount copy, CloneMount(place, path, false));
  MOORING_RETURN_IF_ERROR(copy.Set({}, Propagation::kInherit, false));
  MOORING_ASSIGN_OR_RETURN(const UniqueFd root, copy.OpenRoot());
  return GrowMounted(root, path, fs_type, bytes);
}

absl::Status KernelMounter::Copy(const std::vector<ImageCopy>& copies) { return CopyImages(copies, sources_); }

absl::Status KernelMounter::Thaw(const std::string& image) { return ThawImage(image, sources_); }

absl::StatusOr<std::string> KernelMounter::HealthProblem(const std::string& mount_path) {
  MOORING_ASSIGN_OR_RETURN(const PathInfo info, Find(mount_path));
  if (!info.mount) return NotFound("nothing is mounted at {}", Quote(mount_path));
  if (!info.failure.empty()) {
    return fmt::format(
        "the {} filesystem does not answer any more ({}): unpublish and unstage the volume, so that the next stage "
        "checks it",
        info.mount->fs_type, info.failure);
  }
  return FindHealthProblem(*info.mount);
}

absl::Status KernelMounter::TuneLoop(const LoopInfo& loop, const LoopTuning& tuning) {
  return mooring::TuneLoop(loop, tuning);
}

}  // namespace mooring
