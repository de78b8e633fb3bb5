#include "mounter/filesystem/identity.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <functional>
#include <memory>
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
#include "mounter/superblock/superblock_guard.h"

namespace mooring {
namespace {

constexpr std::chrono::seconds kLimit{100};
constexpr std::chrono::seconds kRenewCheckLimit{3600};

// The places of the UUID in the superblock: "Ext4 Disk Layout", "XFS Algorithms & Data Structures".
constexpr off_t kExt4RoCompatAt = 1024 + 0x64;
constexpr off_t kExt4UuidAt = 1024 + 0x68;
constexpr off_t kXfsUuidAt = 32;
constexpr std::size_t kUuidBytes = 16;

absl::StatusOr<std::string> ReadSuper(const std::string& path, off_t at, std::size_t bytes) {
  MOORING_ASSIGN_OR_RETURN(const UniqueFd fd, OpenNoSymlinks(path, O_RDONLY | O_NONBLOCK));
  std::string text(bytes, '\0');
  const ssize_t got = ::pread(fd.get(), text.data(), text.size(), at);
  if (got < 0) return ErrnoStatus(errno, "read the superblock of", path);
  if (got != static_cast<ssize_t>(text.size())) return FailedPrecondition(Quote(path) + " ends before its superblock");
  return text;
}

absl::StatusOr<std::string> ReadUuid(const std::string& path, off_t at) { return ReadSuper(path, at, kUuidBytes); }

// RO_COMPAT_METADATA_CSUM, 0x400 of a little-endian number.
absl::StatusOr<bool> HasMetadataChecksums(const std::string& path) {
  MOORING_ASSIGN_OR_RETURN(const std::string features, ReadSuper(path, kExt4RoCompatAt, 4));
  return (static_cast<unsigned char>(features[1]) & 0x4U) != 0;
}

absl::Status CheckSuperblockOf(const std::string& path, const std::string& fs_type) {
  MOORING_ASSIGN_OR_RETURN(const UniqueFd fd, OpenNoSymlinks(path, O_RDONLY | O_NONBLOCK));
  return CheckSuperblock(fd.get(), path, fs_type);
}

absl::Status Failed(const std::vector<std::string>& command, const std::string& path, const CommandResult& result) {
  const std::string message =
      fmt::format("{} on {} ended with {}: {}", command[0], Quote(path), result.exit_code, Quote(result.output, 2048));
  const bool full = result.output.find("No space left") != std::string::npos;
  return full ? ResourceExhausted(message) : FailedPrecondition(message);
}

// Whether the run changed the UUID. Exit codes do not tell: xfs_db(8) ends with 0 after a command that it refused.
absl::StatusOr<bool> RunToChange(const std::string& path, off_t uuid_at, const std::function<absl::Status()>& run) {
  MOORING_ASSIGN_OR_RETURN(const std::string before, ReadUuid(path, uuid_at));
  MOORING_RETURN_IF_ERROR(run());
  MOORING_ASSIGN_OR_RETURN(const std::string after, ReadUuid(path, uuid_at));
  return before != after;
}

// e2fsck replays the journal after a power cut, and leaves a clean filesystem alone. tune2fs then changes the UUID in
// the superblocks only. metadata_csum_seed makes the checksums of the metadata independent of the UUID.
absl::Status RenewExt4(const std::string& path, const UniqueFd& held) {
  std::vector<std::string> check = {"e2fsck", "-p"};
  check.insert(check.end(), kNoExternalJournal.begin(), kNoExternalJournal.end());
  check.push_back(path);
  MOORING_ASSIGN_OR_RETURN(const CommandResult checked,
                           RunCommand(check, "e2fsprogs", kRenewCheckLimit, held, kNotMounted));
  if (checked.exit_code >= 4) return Failed(check, path, checked);  // fsck(8): 1 and 2 are "corrected"
  MOORING_RETURN_IF_ERROR(CheckSuperblockOf(path, "ext4"));         // the journal may have held another superblock
  MOORING_ASSIGN_OR_RETURN(const bool has_checksums, HasMetadataChecksums(path));
  std::vector<std::string> tune = {"tune2fs", "-U", "random", path};
  if (has_checksums) tune.insert(tune.begin() + 1, {"-O", "metadata_csum_seed"});
  CommandResult tuned;
  MOORING_ASSIGN_OR_RETURN(const bool changed, RunToChange(path, kExt4UuidAt, [&]() -> absl::Status {
                             MOORING_ASSIGN_OR_RETURN(tuned, RunCommand(tune, "e2fsprogs", kLimit, held, kNotMounted));
                             return absl::OkStatus();
                           }));
  return changed && tuned.exit_code == 0 ? absl::OkStatus() : Failed(tune, path, tuned);
}

// As LockImage, without the lock, which `held` has already.
absl::StatusOr<LockedImage> Open(const std::string& path) {
  LockedImage image;
  image.path = path;
  MOORING_ASSIGN_OR_RETURN(image.fd, OpenNoSymlinks(path, O_RDONLY | O_NONBLOCK));
  if (::fstat(image.fd.get(), &image.status) != 0) return ErrnoStatus(errno, "look at", path);
  if (S_ISREG(image.status.st_mode)) return image;
  return FailedPrecondition(fmt::format("{} is no image file", Quote(path)));
}

// The kernel replays the log in a mount that is attached nowhere. nouuid: the original, with this UUID, may be mounted.
absl::Status ReplayXfsLog(const std::string& path) {
  MOORING_ASSIGN_OR_RETURN(const LockedImage image, Open(path));
  {
    MOORING_ASSIGN_OR_RETURN(const OpenLoop loop,
                             OpenOrAttachLoop({.label = "mooring-identity", .auto_clear = true}, image));
    MountRequest request;
    request.source = path;
    request.fs_type = "xfs";
    request.options = {{"nouuid", std::nullopt}};
    MOORING_RETURN_IF_ERROR(MakeMount(request, loop.info.device).status());
  }
  return CheckUnattached(image);
}

absl::StatusOr<CommandResult> RunXfsDb(const std::vector<std::string>& command, const UniqueFd& held) {
  return RunCommand(command, "xfsprogs", kLimit, held);
}

// xfs_db changes nothing while the log has to be replayed, which it always has to in a copy of a frozen xfs.
absl::Status RenewXfs(const std::string& path, const UniqueFd& held) {
  const std::vector<std::string> command = {"xfs_db", "-x", "-c", "uuid generate", path};
  CommandResult result;
  const auto run = [&]() -> absl::Status {
    MOORING_ASSIGN_OR_RETURN(result, RunXfsDb(command, held));
    return absl::OkStatus();
  };
  MOORING_ASSIGN_OR_RETURN(const bool at_once, RunToChange(path, kXfsUuidAt, run));
  if (at_once && result.exit_code == 0) return absl::OkStatus();
  MOORING_RETURN_IF_ERROR(ReplayXfsLog(path));
  MOORING_ASSIGN_OR_RETURN(const bool changed, RunToChange(path, kXfsUuidAt, run));
  return changed && result.exit_code == 0 ? absl::OkStatus() : Failed(command, path, result);
}

}  // namespace

absl::Status CheckCanRenew(const std::string& fs_type) {
  if (fs_type.empty() || fs_type == "ext4" || fs_type == "xfs" || fs_type == "btrfs") return absl::OkStatus();
  return InvalidArgument(
      fmt::format("cannot give a new identity to {}: ext4, xfs and btrfs are known", Quote(fs_type)));
}

absl::Status RenewIdentity(const std::string& path, const std::string& fs_type, const UniqueFd& held) {
  MOORING_RETURN_IF_ERROR(CheckCanRenew(fs_type));
  MOORING_RETURN_IF_ERROR(CheckSuperblockOf(path, fs_type));
  if (fs_type == "ext4") return RenewExt4(path, held);
  return fs_type == "xfs" ? RenewXfs(path, held) : RenewBtrfs(path);
}

}  // namespace mooring
