#include "mounter/filesystem/identity.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/filesystem/ext4_offline.h"
#include "mounter/image/image.h"
#include "mounter/loop/loop_device.h"
#include "mounter/mount/new_mount.h"
#include "mounter/path/target.h"
#include "mounter/process/command.h"
#include "mounter/superblock/btrfs_super.h"
#include "mounter/superblock/ext4_super.h"
#include "mounter/superblock/superblock_guard.h"
#include "mounter/superblock/xfs_super.h"

namespace mooring {
namespace {

constexpr std::chrono::seconds kLimit{100};
constexpr std::chrono::seconds kRenewCheckLimit{3600};
constexpr std::chrono::seconds kUnmountPatience{5};

absl::StatusOr<Ext4Super> SuperOfExt4(const std::string& path) {
  MOORING_ASSIGN_OR_RETURN(const UniqueFd fd, OpenNoSymlinks(path, O_RDONLY | O_NONBLOCK));
  return ReadExt4Super(fd.get(), path);
}

absl::StatusOr<std::string> UuidOf(const std::string& path, const std::string& fs_type) {
  if (fs_type == "ext4") {
    MOORING_ASSIGN_OR_RETURN(const Ext4Super super, SuperOfExt4(path));
    return super.uuid;
  }
  MOORING_ASSIGN_OR_RETURN(const UniqueFd fd, OpenNoSymlinks(path, O_RDONLY | O_NONBLOCK));
  MOORING_ASSIGN_OR_RETURN(const XfsSuper super, ReadXfsSuper(fd.get(), path));
  return super.uuid;
}

absl::Status CheckSuperblockOf(const std::string& path, const std::string& fs_type) {
  MOORING_ASSIGN_OR_RETURN(const UniqueFd fd, OpenNoSymlinks(path, O_RDONLY | O_NONBLOCK));
  return CheckSuperblock(fd.get(), path, fs_type);
}

absl::Status Failed(const std::vector<std::string>& command, const std::string& path, const CommandResult& result) {
  if (result.WasKilled()) return ProgramWasKilled(command[0], path, result);
  const std::string message =
      fmt::format("{} on {} ended with {}: {}", command[0], Quote(path), result.exit_code, Quote(result.output, 2048));
  return result.MeansFullDisk() ? ResourceExhausted(message) : FailedPrecondition(message);
}

struct UuidChange {
  CommandResult result;
  bool done = false;
};

// Exit codes do not tell whether the UUID was changed: xfs_db(8) ends with 0 after a command that it refused.
absl::StatusOr<UuidChange> ChangeUuid(const std::vector<std::string>& command, const std::string& fs_type,
                                      const std::string& path, const UniqueFd& held) {
  const std::string package = fs_type == "ext4" ? "e2fsprogs" : "xfsprogs";
  MOORING_ASSIGN_OR_RETURN(const std::string before, UuidOf(path, fs_type));
  MOORING_ASSIGN_OR_RETURN(const CommandResult result, RunCommand(command, package, kLimit, {held.get()}, kNotMounted));
  MOORING_ASSIGN_OR_RETURN(const std::string after, UuidOf(path, fs_type));
  return UuidChange{result, before != after && result.exit_code == 0};
}

// e2fsck replays the journal after a power cut, and leaves a clean filesystem alone. tune2fs then changes the UUID in
// the superblocks only. metadata_csum_seed makes the checksums of the metadata independent of the UUID.
absl::Status RenewExt4(const std::string& path, const UniqueFd& held) {
  const std::vector<std::string> check = CommandOfE2fsck({"-p"}, path);
  MOORING_ASSIGN_OR_RETURN(const CommandResult checked,
                           RunCommand(check, "e2fsprogs", kRenewCheckLimit, {held.get()}, kNotMounted));
  if (!IsRepaired(checked)) return Failed(check, path, checked);
  MOORING_RETURN_IF_ERROR(CheckSuperblockOf(path, "ext4"));  // the journal may have held another superblock
  MOORING_ASSIGN_OR_RETURN(const Ext4Super super, SuperOfExt4(path));
  std::vector<std::string> tune = {"tune2fs", "-U", "random", path};
  if ((super.ro_compat & kExt4RoCompatMetadataChecksum) != 0)
    tune.insert(tune.begin() + 1, {"-O", "metadata_csum_seed"});
  MOORING_ASSIGN_OR_RETURN(const UuidChange change, ChangeUuid(tune, "ext4", path, held));
  return change.done ? absl::OkStatus() : Failed(tune, path, change.result);
}

// As LockImage, without the lock, which `held` has already.
absl::StatusOr<LockedImage> Open(const std::string& path) {
  LockedImage image;
  image.path = path;
  MOORING_ASSIGN_OR_RETURN(image.fd, OpenNoSymlinks(path, O_RDONLY | O_NONBLOCK));
  if (::fstat(image.fd.get(), &image.status) != 0) return ErrnoStatus(errno, "look at", path);
  if (S_ISREG(image.status.st_mode) || S_ISBLK(image.status.st_mode)) return image;
  return FailedPrecondition("{} is neither an image file nor a block device", Quote(path));
}

// The kernel replays the log in a mount that is attached nowhere. nouuid: the original, with this UUID, may be mounted.
absl::Status MountXfsOnce(const std::string& path, const std::string& device) {
  MountRequest request;
  request.source = path;
  request.fs_type = "xfs";
  request.options = {{"nouuid", std::nullopt}};
  return MakeHiddenMount(request, device).status();
}

// A new mount namespace may have a copy of the mount for a moment. xfs_db refuses a mounted device. The kernel wrote to
// the disk past the cache of the device, which xfs_db reads, and which stays while `held` is open.
absl::Status AwaitUnmounted(const std::string& device) {
  for (const auto until = std::chrono::steady_clock::now() + kUnmountPatience;;) {
    const absl::StatusOr<UniqueFd> fd = OpenNoSymlinks(device, O_RDONLY | O_EXCL | O_NONBLOCK);
    if (fd.ok() && ::ioctl(fd->get(), BLKFLSBUF, 0) == 0) return absl::OkStatus();
    if (fd.ok()) return ErrnoStatus(errno, "drop the cache of", device);
    if (std::chrono::steady_clock::now() > until) return fd.status();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

absl::Status ReplayXfsLog(const std::string& path) {
  MOORING_ASSIGN_OR_RETURN(const LockedImage image, Open(path));
  if (S_ISBLK(image.status.st_mode)) {
    MOORING_RETURN_IF_ERROR(MountXfsOnce(path, path));
    return AwaitUnmounted(path);
  }
  {
    MOORING_ASSIGN_OR_RETURN(const OpenLoop loop,
                             OpenOrAttachLoop({.label = "mooring-identity", .auto_clear = true}, image));
    MOORING_RETURN_IF_ERROR(MountXfsOnce(path, loop.info.device));
  }
  return LockUnattached(image).status();
}

// xfs_db changes nothing while the log has to be replayed, which it always has to in a copy of a frozen xfs.
absl::Status RenewXfs(const std::string& path, const UniqueFd& held) {
  const std::vector<std::string> command = {"xfs_db", "-x", "-c", "uuid generate", path};
  MOORING_ASSIGN_OR_RETURN(const UuidChange at_once, ChangeUuid(command, "xfs", path, held));
  if (at_once.done) return absl::OkStatus();
  MOORING_RETURN_IF_ERROR(ReplayXfsLog(path));
  MOORING_ASSIGN_OR_RETURN(const UuidChange change, ChangeUuid(command, "xfs", path, held));
  return change.done ? absl::OkStatus() : Failed(command, path, change.result);
}

}  // namespace

absl::Status CheckCanRenew(const std::string& fs_type) {
  if (fs_type.empty() || fs_type == "ext4" || fs_type == "xfs" || fs_type == "btrfs") return absl::OkStatus();
  return InvalidArgument("cannot give a new identity to {}: ext4, xfs and btrfs are known", Quote(fs_type));
}

absl::Status RenewIdentity(const std::string& path, const std::string& fs_type, const UniqueFd& held) {
  MOORING_RETURN_IF_ERROR(CheckCanRenew(fs_type));
  MOORING_RETURN_IF_ERROR(CheckSuperblockOf(path, fs_type));
  if (fs_type == "ext4") return RenewExt4(path, held);
  return fs_type == "xfs" ? RenewXfs(path, held) : RenewBtrfs(path);
}

}  // namespace mooring
