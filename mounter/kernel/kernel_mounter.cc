#include "mounter/kernel/kernel_mounter.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>

#include "base/file/path.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/conditions.h"
#include "mounter/copy/copy.h"
#include "mounter/filesystem/filesystem.h"
#include "mounter/image/image.h"
#include "mounter/kernel/inspect.h"
#include "mounter/loop/device_holder.h"
#include "mounter/loop/loop_device.h"
#include "mounter/loop/loop_mounted.h"
#include "mounter/mount/new_mount.h"
#include "mounter/mount/scratch.h"
#include "mounter/path/target.h"
#include "mounter/sys/device_name.h"
#include "mounter/table/mount_table.h"

namespace mooring {
namespace {

// For calls that only read: they also take loop devices and mounts of the host.
const std::vector<std::string> kEverywhere = {"/"};

struct DeviceNode {
  UniqueFd fd;  // O_PATH: a device that has no disk any more cannot be opened
  dev_t number = 0;
};

absl::StatusOr<DeviceNode> DeviceAt(const std::string& path, const SourcePolicy& sources) {
  MOORING_ASSIGN_OR_RETURN(UniqueFd node, OpenNoSymlinks(path, O_PATH));
  MOORING_RETURN_IF_ERROR(sources.CheckBackingFile(node, path));
  struct stat status = {};
  if (::fstat(node.get(), &status) != 0) return ErrnoStatus(errno, "look at", path);
  if (!S_ISBLK(status.st_mode)) return FailedPrecondition("{} is no block device", Quote(path));
  return DeviceNode{.fd = std::move(node), .number = status.st_rdev};
}

absl::StatusOr<UniqueFd> Open(const DeviceNode& node, const std::string& path) {
  UniqueFd fd(::open(fmt::format("/proc/self/fd/{}", node.fd.get()).c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.ok()) return ErrnoStatus(errno, "open the block device", path);
  return fd;
}

// `status` is that of the target now. `device`: of the filesystem that is mounted there.
absl::StatusOr<StatsInfo> StatsOf(const Target& target, const Target::Status& status, MountedDevice& device) {
  if (status.kind == PathInfo::Kind::kBlockDevice) {
    const absl::StatusOr<std::uint64_t> bytes = BlockDeviceBytes(status.rdev);
    if (!bytes.ok()) return Unexpected(bytes.status());
    StatsInfo stats;
    stats.bytes.total = *bytes;
    return stats;
  }
  // For a plain directory, statfs(2) would give the figures of the host's filesystem.
  if (!status.mount_root || status.kind != PathInfo::Kind::kDirectory) {
    return NotFound("nothing is mounted at {}", Quote(target.path()));
  }
  constexpr int kFlags = O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  UniqueFd root(::openat(target.directory().get(), target.name().c_str(), kFlags | O_RDONLY));
  // A server may refuse to list the directory (NFS, root_squash). Its usage is known all the same.
  if (!root.ok()) root.reset(::openat(target.directory().get(), target.name().c_str(), kFlags | O_PATH));
  if (!root.ok()) return ErrnoStatus(errno, "read the usage of", target.path());
  return UsageOf(root, target.path(), device);
}

// umount2(2) takes a path, and unmounts what is there at that moment. A descriptor of the mount would not help: it
// makes the mount busy. So the unique id is compared right before, and asked for afterwards (docs/security.md,
// "Limits").
constexpr std::uint64_t kFirstUniqueId = std::uint64_t{1} << 31U;  // lower ids are those of mountinfo, and used again

absl::Status CheckStillThere(const Target& target, const MountInfo& checked) {
  if (checked.id < kFirstUniqueId) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(const Target::Status now, target.Stat());
  if (!now.unique_id || !now.mount_root || now.mount_id == checked.id) return absl::OkStatus();
  return Aborted("another mount is at {} by now: nothing was unmounted; call again", Quote(target.path()));
}

absl::Status CheckIsGone(const Target& target, const MountInfo& checked) {
  if (checked.id < kFirstUniqueId || !LookUpMount(checked.id, true).ok()) return absl::OkStatus();
  return Aborted(
      "another mount than the one that was checked was unmounted at {}: another process put it there at that moment; "
      "call again, and mount that one again",
      Quote(target.path()));
}

}  // namespace

absl::Status KernelMounter::Unmount(const UnmountRequest& request) {
  absl::StatusOr<Target> target = Target::Resolve(request.target, roots_);
  if (absl::IsNotFound(target.status())) return absl::OkStatus();  // the parent does not exist
  if (!target.ok()) return target.status();
  MOORING_RETURN_IF_ERROR(targets_.CheckTarget(*target));
  MOORING_ASSIGN_OR_RETURN(const Target::Status status, target->Stat());
  PathInfo info;
  info.kind = status.kind;
  if (status.mount_root) {
    MOORING_ASSIGN_OR_RETURN(info, Inspect(*target, sources_));
  }
  return UnmountInspected(*target, info, status.mount_root, request.remove_target);
}

absl::StatusOr<bool> KernelMounter::UnmountIf(const ConditionalUnmount& request) {
  const UnmountRequest& unmount = request.unmount;
  absl::StatusOr<Target> target = Target::Resolve(unmount.target, roots_);
  if (absl::IsNotFound(target.status())) return true;  // the parent does not exist
  if (!target.ok()) return target.status();
  MOORING_RETURN_IF_ERROR(targets_.CheckTarget(*target));
  MOORING_ASSIGN_OR_RETURN(const PathInfo info, Inspect(*target, sources_));
  if (!MayUnmount(info, request.target)) return false;
  MOORING_RETURN_IF_ERROR(CheckInTime(unmount.target));
  MOORING_RETURN_IF_ERROR(UnmountInspected(*target, info, info.mount.has_value(), unmount.remove_target));
  return true;
}

absl::Status KernelMounter::UnmountInspected(const Target& target, const PathInfo& info, bool was_mounted,
                                             bool remove) const {
  if (info.mount) {  // else a mount made since then would be unmounted without a check
    MOORING_RETURN_IF_ERROR(sources_.CheckUnmount(target, info));
    MOORING_RETURN_IF_ERROR(CheckStillThere(target, *info.mount));
    MOORING_RETURN_IF_ERROR(target.Unmount());
    MOORING_RETURN_IF_ERROR(CheckIsGone(target, *info.mount));
  }
  if (!remove || (!was_mounted && info.kind == PathInfo::Kind::kMissing)) return absl::OkStatus();
  if (was_mounted || targets_.MayRemove(target)) return target.Remove();
  return target.CheckRemovable();  // keeps a target of somebody else, and reports one that cannot be a target
}

absl::StatusOr<PathInfo> KernelMounter::Find(const std::string& path) {
  absl::StatusOr<Target> target = Target::Resolve(path, kEverywhere);
  if (absl::IsNotFound(target.status())) return PathInfo();
  if (!target.ok()) return target.status();
  return Inspect(*target, sources_);
}

// A mount that a killed process has left would refuse the deletion of a volume, and is not listed.
absl::StatusOr<std::vector<ListedMount>> KernelMounter::List(const std::string& path) {
  RemoveDeadScratches();
  return ListMounts(path);
}

absl::StatusOr<StatsInfo> KernelMounter::Stats(const std::string& path) {
  MOORING_ASSIGN_OR_RETURN(const Target target, Target::Resolve(path, kEverywhere));
  MOORING_ASSIGN_OR_RETURN(const Target::Status status, target.Stat());
  MountedDevice device(status.device);
  return StatsOf(target, status, device);
}

// Inspects the mount once. Before the usage is read, it must still be mounted.
absl::StatusOr<Examination> KernelMounter::Examine(const ExamineRequest& request) {
  Examination seen;
  absl::StatusOr<Target> target = Target::Resolve(request.path, kEverywhere);
  if (absl::IsNotFound(target.status())) return seen;
  if (!target.ok()) return target.status();
  MOORING_ASSIGN_OR_RETURN(seen.info, Inspect(*target, sources_));
  if (!IsExpected(seen.info, request.expected)) return seen;
  MountedDevice device(seen.info.mount->device);
  if (seen.info.kind != PathInfo::Kind::kBlockDevice) {
    MOORING_ASSIGN_OR_RETURN(seen.problem, FindHealthProblem(*seen.info.mount, device));
  }
  MOORING_ASSIGN_OR_RETURN(const Target::Status now, target->Stat());
  const absl::StatusOr<StatsInfo> usage = StatsOf(*target, now, device);
  if (!usage.ok() && seen.problem.empty()) return usage.status();
  seen.usage = usage.value_or(StatsInfo());
  seen.measured = true;
  return seen;
}

absl::StatusOr<LoopInfo> KernelMounter::AttachLoop(const AttachLoopRequest& request) {
  MOORING_ASSIGN_OR_RETURN(const LockedImage image, LockImage(request.backing_file));
  MOORING_RETURN_IF_ERROR(sources_.CheckBackingFile(image.fd, request.backing_file));
  const LoopSpec spec = {.label = request.label, .read_only = request.read_only, .raw = true};
  MOORING_ASSIGN_OR_RETURN(const OpenLoop loop, OpenOrAttachLoop(spec, image));
  LoopInfo info = loop.info;
  info.label = request.label;
  absl::Status ready = HoldLoopDevice(info, loop.made);
  if (ready.ok() && !loop.made) ready = ResizeLoopDevice(info);
  if (!ready.ok() && loop.made) DetachLoopDevice(info).IgnoreError();
  if (!ready.ok()) return ready;
  info.auto_clear = false;
  info.offset = info.size_limit = 0;
  return info;
}

absl::Status KernelMounter::HoldLoop(const LoopInfo& loop) { return HoldLoopDevice(loop); }

absl::Status KernelMounter::DetachLoop(const LoopInfo& loop) { return DetachLoopDevice(loop); }

absl::Status KernelMounter::Flush(const std::string& device) {
  MOORING_ASSIGN_OR_RETURN(const DeviceNode node, DeviceAt(device, sources_));
  MOORING_ASSIGN_OR_RETURN(const UniqueFd fd, Open(node, device));
  return FlushDevice(fd.get(), device);
}

absl::Status KernelMounter::HoldDevice(const std::string& device) {
  MOORING_ASSIGN_OR_RETURN(const DeviceNode node, DeviceAt(device, sources_));
  MOORING_ASSIGN_OR_RETURN(const UniqueFd fd, Open(node, device));
  return mooring::HoldDevice(fd.get(), node.number);
}

absl::Status KernelMounter::ReleaseDevice(const std::string& device) {
  MOORING_ASSIGN_OR_RETURN(const DeviceNode node, DeviceAt(device, sources_));
  return mooring::ReleaseDevice(node.number);
}

absl::StatusOr<bool> KernelMounter::IsInUse(const std::string& device) {
  MOORING_ASSIGN_OR_RETURN(const UniqueFd node, OpenNoSymlinks(device, O_PATH));
  MOORING_RETURN_IF_ERROR(sources_.CheckBackingFile(node, device));
  struct stat status = {};
  if (::fstat(node.get(), &status) != 0) return ErrnoStatus(errno, "look at", device);
  if (!S_ISBLK(status.st_mode)) return FailedPrecondition("{} is no block device", Quote(device));
  return StaysClaimed(node.get(), device);
}

absl::Status KernelMounter::ResizeLoop(const LoopInfo& loop) { return ResizeLoopDevice(loop); }

absl::StatusOr<std::vector<LoopInfo>> KernelMounter::FindLoops(const std::string& backing_file) {
  RemoveDeadScratches();  // as List
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

absl::Status KernelMounter::Format(const FormatRequest& request) { return FormatFilesystem(request); }

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
  const absl::StatusOr<std::uint64_t> bytes = BlockDeviceBytes(info.device);
  if (!bytes.ok()) return Unexpected(bytes.status());
  MOORING_ASSIGN_OR_RETURN(NewMount copy, CloneMount(place, path, false));
  MOORING_RETURN_IF_ERROR(copy.Set({}, Propagation::kInherit, false));
  MOORING_ASSIGN_OR_RETURN(const UniqueFd root, copy.OpenRoot());
  return GrowMounted(root, path, fs_type, *bytes);
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
  MountedDevice device(info.mount->device);
  return FindHealthProblem(*info.mount, device);
}

absl::Status KernelMounter::TuneLoop(const LoopInfo& loop, const LoopTuning& tuning) {
  return mooring::TuneLoop(loop, tuning);
}

}  // namespace mooring
