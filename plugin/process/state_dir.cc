#include "plugin/process/state_dir.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "absl/status/status.h"
#include "base/file/directory.h"
#include "base/status.h"
#include "base/text/quote.h"

namespace mooring {
namespace {

absl::Status CannotWrite(int error, const std::string& directory, std::string_view what, uid_t uid, gid_t gid) {
  const std::string failed = Message(ErrnoStatus(error, fmt::format("write in {}", what), directory));
  if (error == EROFS) return FailedPrecondition(failed + ": mount it writable, or give the plugin another one");
  if (error == ENOENT) return FailedPrecondition(failed + ": it was there at the start; put it back");
  if (error != EACCES && error != EPERM) return ErrnoStatus(error, fmt::format("write in {}", what), directory);
  return FailedPrecondition(fmt::format(
      "{}: the plugin works as user {}:{}: see that this user may write there, and may pass all directories above it",
      failed, uid, gid));
}

int ErrnoOfAccess(const std::string& directory) {
  return ::faccessat(AT_FDCWD, directory.c_str(), R_OK | W_OK | X_OK, AT_EACCESS) == 0 ? 0 : errno;
}

// Who may write there could put something in the place of our files. What is new to us and empty becomes ours.
absl::Status CheckOwnDirectory(const RealDirectory& directory, std::string_view what, const Handover& handover) {
  struct stat status = {};
  const int fd = directory.fd.get();
  if (::fstat(fd, &status) != 0) return ErrnoStatus(errno, fmt::format("look at {}", what), directory.path);
  const bool ours = handover.MayTake(status.st_uid);
  if (ours && (status.st_mode & (S_IWGRP | S_IWOTH)) == 0) return absl::OkStatus();
  const auto names = EntriesOf(fmt::format("/proc/self/fd/{}", fd));
  if (ours && names.ok() && names->empty()) {
    return ::fchmod(fd, 0700) == 0 ? absl::OkStatus() : ErrnoStatus(errno, "keep others out of", directory.path);
  }
  return FailedPrecondition(
      fmt::format("others may write in {} {} (owner {}, mode {:o}): give the "
                  "plugin a directory of its own",
                  what, Quote(directory.path), status.st_uid, status.st_mode & 07777));
}

// The directories above may keep the user out.
absl::Status CheckWritableTo(const RunAs& user, const std::string& path, std::string_view what) {
  if (user.uid == ::geteuid()) return CheckWritable(path, what);
  const int error = ErrnoAs(user, [&path] { return ErrnoOfAccess(path); });
  return error == 0 ? absl::OkStatus() : CannotWrite(error, path, what, user.uid, user.gid);
}

absl::Status Own(const RealDirectory& directory, std::string_view what, Holding holding,
                 const std::vector<std::string>& pools, const Handover& handover) {
  MOORING_RETURN_IF_ERROR(handover.CheckMayGive(directory, holding, pools));  // before a mode changes
  MOORING_RETURN_IF_ERROR(CheckOwnDirectory(directory, what, handover));
  MOORING_RETURN_IF_ERROR(handover.Give(directory, holding));
  return CheckWritableTo(handover.user(), directory.path, what);
}

// An empty one in its place would know of no volume, and would put new ones on the disk that the mount point is on.
absl::Status CheckIsThere(const std::string& path, std::string_view what) {
  if (::access(path.c_str(), F_OK) == 0 || errno != ENOENT) return absl::OkStatus();
  return FailedPrecondition(
      fmt::format("{} {} is missing, and --require-directories says that none is made: mount its disk; on a new disk, "
                  "make the directory (mkdir -m 0700)",
                  what, Quote(path)));
}

constexpr std::string_view kState = "the state directory";
constexpr std::string_view kVolumes = "the directory of volumes";

}  // namespace

absl::Status CheckWritable(const std::string& directory, std::string_view what) {
  const int error = ErrnoOfAccess(directory);
  return error == 0 ? absl::OkStatus() : CannotWrite(error, directory, what, ::geteuid(), ::getegid());
}

// One that is there already may be shared: what we put into it is private. The way there is for whoever we work as.
absl::StatusOr<RealDirectory> MakeStateDir(const std::string& path, IfMissing if_missing) {
  if (if_missing == IfMissing::kRefuse) MOORING_RETURN_IF_ERROR(CheckIsThere(path, kState));
  std::error_code error;
  const mode_t before = ::umask(0066);
  const bool made = if_missing == IfMissing::kMake && std::filesystem::create_directories(path, error);
  ::umask(before);
  if (error) {
    const std::string failed = Message(ErrnoStatus(error.value(), "make the state directory", path));
    return FailedPrecondition(failed + ": see that it can be made there, or give the plugin another one");
  }
  if (made && ::chmod(path.c_str(), 0700) != 0) return ErrnoStatus(errno, "keep others out of", path);
  MOORING_RETURN_IF_ERROR(CheckWritable(path, kState));
  return OpenRealDirectory(path);
}

absl::StatusOr<RealDirectory> MakePoolDirectory(const std::string& path, IfMissing if_missing) {
  MOORING_RETURN_IF_ERROR(if_missing == IfMissing::kMake ? MakeRealDirectory(path) : CheckIsThere(path, kVolumes));
  MOORING_RETURN_IF_ERROR(CheckWritable(path, kVolumes));
  return OpenRealDirectory(path);
}

absl::Status OwnStateDir(const RealDirectory& directory, const std::vector<std::string>& pools,
                         const Handover& handover) {
  return Own(directory, kState, Holding::kState, pools, handover);
}

absl::Status OwnPoolDirectory(const RealDirectory& directory, Holding holding, const Handover& handover) {
  return Own(directory, kVolumes, holding, {}, handover);
}

std::string VolumesDirectory(const std::string& state_dir) { return state_dir + "/volumes"; }

}  // namespace mooring
