#include "mounter/source_guard.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <optional>

#include "base/log.h"
#include "base/path.h"
#include "base/quote.h"
#include "base/status.h"
#include "mounter/loop_device.h"
#include "mounter/mount_table.h"
#include "mounter/syscalls.h"

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
  return Refuse(fmt::format("{} is neither a loop device of a volume nor where one is mounted", Quote(path)));
}

// Where the open file lies at this moment, whatever led there.
absl::StatusOr<std::string> PlaceOf(const UniqueFd& file, const std::string& path) {
  std::array<char, PATH_MAX> place = {};
  const ssize_t size = ::readlink(fmt::format("/proc/self/fd/{}", file.get()).c_str(), place.data(), place.size());
  if (size < 0) return ErrnoStatus(errno, "find out where the open file lies:", path);
  return std::string(place.data(), static_cast<std::size_t>(size));
}

}  // namespace

absl::Status SourceGuard::CheckBindSource(const UniqueFd& source, const std::string& path) const {
  struct statx status = {};
  const int flags = AT_EMPTY_PATH | AT_STATX_DONT_SYNC;  // a server that hangs is not asked
  if (::statx(source.get(), "", flags, STATX_TYPE | STATX_MODE, &status) != 0) {
    return ErrnoStatus(errno, "look at", path);
  }
  if (S_ISBLK(status.stx_mode)) return CheckDevice(makedev(status.stx_rdev_major, status.stx_rdev_minor), path);
  const bool is_mount = (status.stx_attributes & sys::kStatxAttrMountRoot) != 0;
  if (!is_mount || !S_ISDIR(status.stx_mode)) return RefuseBindSource(path);
  if (status.stx_dev_major != 0) return CheckDevice(makedev(status.stx_dev_major, status.stx_dev_minor), path);
  MOORING_ASSIGN_OR_RETURN(const MountInfo mount, LookUpMountOf(source, path));  // a btrfs has a number of its own
  return CheckDevice(mount.device, path);
}

absl::Status SourceGuard::CheckBackingFile(const UniqueFd& file, const std::string& path) const {
  struct stat status = {};
  if (::fstat(file.get(), &status) != 0) return ErrnoStatus(errno, "look at", path);
  if (S_ISBLK(status.st_mode)) return CheckDevice(status.st_rdev, path);
  MOORING_ASSIGN_OR_RETURN(const std::string place, PlaceOf(file, path));
  if (S_ISREG(status.st_mode) && IsBelowAny(place, directories_)) return absl::OkStatus();
  return RefusePlace(place);
}

absl::Status SourceGuard::CheckDirectory(const UniqueFd& directory, const std::string& path) const {
  MOORING_ASSIGN_OR_RETURN(const std::string place, PlaceOf(directory, path));
  return IsBelowAny(place, directories_) ? absl::OkStatus() : RefusePlace(place);
}

absl::Status SourceGuard::CheckDevice(dev_t device, const std::string& path) const {
  MOORING_ASSIGN_OR_RETURN(const std::optional<std::string> label, LoopLabel(device));
  if (label && label->starts_with(label_prefix_)) return absl::OkStatus();
  return RefuseBindSource(path);
}

}  // namespace mooring
