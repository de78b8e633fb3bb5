#include "mounter/source_guard.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>

#include "base/log.h"
#include "base/path.h"
#include "base/quote.h"
#include "base/status.h"
#include "mounter/device_links.h"
#include "mounter/loop_device.h"
#include "mounter/memory_mount.h"
#include "mounter/mount_table.h"
#include "mounter/syscalls.h"
#include "mounter/target.h"

namespace mooring {
namespace {

absl::Status Refuse(const std::string& message) {
  log::Once(log::Level::kWarning, "refused a source that is no volume", {{"request", message}});
  return FailedPrecondition(message);
}

absl::Status RefusePlace(const std::string& place) {
  return Refuse(fmt::format("{} lies in none of the directories of volumes that the mount helper was started with",
                            Quote(place)));
}

absl::Status RefuseBindSource(const std::string& path) {
  return Refuse(fmt::format(
      "{} is neither a loop device of a volume nor where one is mounted, nor a directory that is one", Quote(path)));
}

// Where the open file lies at this moment, whatever led there.
absl::StatusOr<std::string> PlaceOf(const UniqueFd& file, const std::string& path) {
  std::array<char, PATH_MAX> place = {};
  const ssize_t size = ::readlink(fmt::format("/proc/self/fd/{}", file.get()).c_str(), place.data(), place.size());
  if (size < 0) return ErrnoStatus(errno, "find out where the open file lies:", path);
  return std::string(place.data(), static_cast<std::size_t>(size));
}

absl::StatusOr<struct statx> StatOf(const UniqueFd& file, const std::string& path) {
  struct statx status = {};
  const int flags = AT_EMPTY_PATH | AT_STATX_DONT_SYNC;  // a server that hangs is not asked
  if (::statx(file.get(), "", flags, STATX_TYPE | STATX_MODE | STATX_INO | STATX_UID, &status) == 0) return status;
  return ErrnoStatus(errno, "look at", path);
}

bool IsMountedDirectory(const struct statx& status) {
  return (status.stx_attributes & sys::kStatxAttrMountRoot) != 0 && S_ISDIR(status.stx_mode);
}

bool IsAt(const struct statx& status, const std::string& directory, const std::string& name) {
  const absl::StatusOr<UniqueFd> above = OpenNoSymlinks(directory, O_PATH | O_DIRECTORY);
  struct stat there = {};
  if (!above.ok() || ::fstatat(above->get(), name.c_str(), &there, AT_SYMLINK_NOFOLLOW) != 0) return false;
  return S_ISDIR(there.st_mode) && there.st_ino == status.stx_ino &&
         there.st_dev == makedev(status.stx_dev_major, status.stx_dev_minor) && name != ".." && name != ".";
}

}  // namespace

absl::Status SourceGuard::CheckBindSource(const UniqueFd& source, const std::string& path) const {
  MOORING_ASSIGN_OR_RETURN(const struct statx status, StatOf(source, path));
  MOORING_ASSIGN_OR_RETURN(const bool ours, IsOurMount(source, status, path));
  return ours || IsVolumeDirectory(source, status) ? absl::OkStatus() : RefuseBindSource(path);
}

absl::Status SourceGuard::MakeTasks(const UniqueFd& source, const std::string& path) const {
  const std::string above(ParentOf(path));
  const bool in_pool =
      std::find(volume_directories_.begin(), volume_directories_.end(), above) != volume_directories_.end();
  if (!in_pool) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(const struct statx status, StatOf(source, path));
  const mode_t mode = status.stx_mode & 07777 & ~static_cast<mode_t>(S_ISGID);  // which the pool may give to all in it
  if (mode != kNeverStaged || !IsVolumeDirectory(source, status)) return absl::OkStatus();
  const std::string handle = fmt::format("/proc/self/fd/{}", source.get());  // no fchmod(2) of what is open as a path
  // The mode last: until then the next call begins anew.
  if (::fchownat(source.get(), "", ::geteuid(), ::getegid(), AT_EMPTY_PATH) == 0 &&
      ::chmod(handle.c_str(), 0755) == 0) {
    return absl::OkStatus();
  }
  return ErrnoStatus(errno, "make root's, for tasks,", path);
}

absl::Status SourceGuard::CheckFilesystem(const UniqueFd& mount, const std::string& path) const {
  MOORING_ASSIGN_OR_RETURN(const struct statx status, StatOf(mount, path));
  MOORING_ASSIGN_OR_RETURN(const bool ours, IsOurMount(mount, status, path));
  return ours ? absl::OkStatus() : RefuseBindSource(path);
}

absl::Status SourceGuard::CheckBackingFile(const UniqueFd& file, const std::string& path) const {
  struct stat status = {};
  if (::fstat(file.get(), &status) != 0) return ErrnoStatus(errno, "look at", path);
  if (S_ISBLK(status.st_mode)) {
    MOORING_ASSIGN_OR_RETURN(const bool ours, IsOurDevice(status.st_rdev));
    return ours ? absl::OkStatus() : RefuseBindSource(path);
  }
  MOORING_ASSIGN_OR_RETURN(const std::string place, PlaceOf(file, path));
  if (S_ISREG(status.st_mode) && IsBelowAny(place, directories_)) return absl::OkStatus();
  return RefusePlace(place);
}

absl::Status SourceGuard::CheckDirectory(const UniqueFd& directory, const std::string& path) const {
  MOORING_ASSIGN_OR_RETURN(const std::string place, PlaceOf(directory, path));
  return IsBelowAny(place, directories_) ? absl::OkStatus() : RefusePlace(place);
}

absl::StatusOr<bool> SourceGuard::IsOurDevice(dev_t device) const {
  MOORING_ASSIGN_OR_RETURN(const std::optional<std::string> label, LoopLabel(device));
  return (label && label->starts_with(label_prefix_)) || IsBehindLinks(device_links_, device);
}

absl::StatusOr<bool> SourceGuard::IsOurMount(const UniqueFd& place, const struct statx& status,
                                             const std::string& path) const {
  if (S_ISBLK(status.stx_mode)) return IsOurDevice(makedev(status.stx_rdev_major, status.stx_rdev_minor));
  if (!IsMountedDirectory(status)) return false;
  if (status.stx_dev_major != 0) return IsOurDevice(makedev(status.stx_dev_major, status.stx_dev_minor));
  // Memory is on no device, and a btrfs has a number of its own.
  MOORING_ASSIGN_OR_RETURN(const MountInfo mount, LookUpMountOf(place, path));
  MOORING_ASSIGN_OR_RETURN(const bool ours, IsOurDevice(mount.device));
  return ours || (mount.fs_type == kMemoryFsType && mount.source.starts_with(label_prefix_));
}

// Only the names of what it could be are taken from its path, which may change: it is what is at that name that counts,
// directly below one of the directories.
bool SourceGuard::IsVolumeDirectory(const UniqueFd& place, const struct statx& status) const {
  if (volume_directories_.empty() || !S_ISDIR(status.stx_mode)) return false;
  const absl::StatusOr<MountInfo> mount = LookUpMountOf(place, "");
  const absl::StatusOr<std::string> path = PlaceOf(place, "");
  const std::string names[] = {IsMountedDirectory(status) && mount.ok() ? std::string(NameOf(mount->root)) : "",
                               path.ok() ? std::string(NameOf(*path)) : ""};
  for (const std::string& directory : volume_directories_) {
    for (const std::string& name : names) {
      if (!name.empty() && IsAt(status, directory, name)) return true;
    }
  }
  return false;
}

}  // namespace mooring
