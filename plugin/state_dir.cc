#include "plugin/state_dir.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "absl/status/status.h"
#include "base/quote.h"
#include "base/status.h"

namespace mooring {
namespace {

absl::Status CannotWrite(int error, const std::string& directory, std::string_view what, uid_t uid, gid_t gid) {
  const std::string failed = Message(ErrnoStatus(error, fmt::format("write in {}", what), directory));
  if (error == EROFS) return FailedPrecondition(failed + ": mount it writable, or give the plugin another one");
  if (error == ENOENT) return FailedPrecondition(failed + ": it was there at the start; put it back");
  return FailedPrecondition(fmt::format(
      "{}: the plugin works as user {}:{}: see that this user may write there, and may pass all directories above it",
      failed, uid, gid));
}

int ErrnoOfAccess(const std::string& directory) {
  return ::faccessat(AT_FDCWD, directory.c_str(), R_OK | W_OK | X_OK, AT_EACCESS) == 0 ? 0 : errno;
}

// Who may write there could put something in the place of our files. What is new to us and empty becomes ours.
absl::Status CheckOwnDirectory(const std::string& path, std::string_view what, const Handover& handover) {
  struct stat status = {};
  if (::stat(path.c_str(), &status) != 0) return ErrnoStatus(errno, fmt::format("look at {}", what), path);
  const bool ours = handover.MayTake(status.st_uid);
  if (ours && (status.st_mode & (S_IWGRP | S_IWOTH)) == 0) return absl::OkStatus();
  std::error_code error;
  if (ours && std::filesystem::is_empty(path, error)) {
    return ::chmod(path.c_str(), 0700) == 0 ? absl::OkStatus() : ErrnoStatus(errno, "keep others out of", path);
  }
  return FailedPrecondition(
      fmt::format("others may write in {} {} (owner {}, mode {:o}): give the "
                  "plugin a directory of its own",
                  what, Quote(path), status.st_uid, status.st_mode & 07777));
}

// The directories above may keep the user out.
absl::Status CheckWritableTo(const RunAs& user, const std::string& path, std::string_view what) {
  if (user.uid == ::geteuid()) return CheckWritable(path, what);
  const int error = ErrnoAs(user, [&path] { return ErrnoOfAccess(path); });
  return error == 0 ? absl::OkStatus() : CannotWrite(error, path, what, user.uid, user.gid);
}

absl::Status Own(const std::string& path, std::string_view what, Holding holding, const Handover& handover) {
  MOORING_RETURN_IF_ERROR(CheckOwnDirectory(path, what, handover));
  MOORING_RETURN_IF_ERROR(handover.Give(path, holding));
  return CheckWritableTo(handover.user(), path, what);
}

constexpr std::string_view kState = "the state directory";
constexpr std::string_view kVolumes = "the directory of volumes";

}  // namespace

absl::Status CheckWritable(const std::string& directory, std::string_view what) {
  const int error = ErrnoOfAccess(directory);
  return error == 0 ? absl::OkStatus() : CannotWrite(error, directory, what, ::geteuid(), ::getegid());
}

// One that is there already may be shared: what we put into it is private. The way there is for whoever we work as.
absl::StatusOr<std::string> MakeStateDir(const std::string& path) {
  std::error_code error;
  const mode_t before = ::umask(0066);
  const bool made = std::filesystem::create_directories(path, error);
  ::umask(before);
  if (error) {
    const std::string failed = Message(ErrnoStatus(error.value(), "make the state directory", path));
    return FailedPrecondition(failed + ": see that it can be made there, or give the plugin another one");
  }
  if (made && ::chmod(path.c_str(), 0700) != 0) return ErrnoStatus(errno, "keep others out of", path);
  const std::filesystem::path real = std::filesystem::canonical(path, error);
  if (error) return ErrnoStatus(error.value(), "find the state directory", path);
  MOORING_RETURN_IF_ERROR(CheckWritable(real.string(), kState));
  return real.string();
}

absl::Status OwnStateDir(const std::string& path, const Handover& handover) {
  return Own(path, kState, Holding::kState, handover);
}

absl::StatusOr<std::string> MakePoolDirectory(const std::string& path, Holding holding, const Handover& handover) {
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return ErrnoStatus(errno, "make the directory", path);
  std::error_code error;
  const std::filesystem::path real = std::filesystem::canonical(path, error);
  if (error) return ErrnoStatus(error.value(), "find the directory", path);
  MOORING_RETURN_IF_ERROR(CheckWritable(real.string(), kVolumes));
  MOORING_RETURN_IF_ERROR(Own(real.string(), kVolumes, holding, handover));
  return real.string();
}

std::string VolumesDirectory(const std::string& state_dir) { return state_dir + "/volumes"; }

}  // namespace mooring
