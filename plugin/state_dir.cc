#include "plugin/state_dir.h"

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

// Who may write there could put something in the place of our files. What is new to us and empty becomes ours.
absl::Status CheckOwnDirectory(const std::filesystem::path& path, std::string_view what) {
  struct stat status = {};
  if (::stat(path.c_str(), &status) != 0) return ErrnoStatus(errno, fmt::format("look at {}", what), path.string());
  if (status.st_uid == ::geteuid() && (status.st_mode & (S_IWGRP | S_IWOTH)) == 0) return absl::OkStatus();
  std::error_code error;
  if (status.st_uid == ::geteuid() && std::filesystem::is_empty(path, error)) {
    return ::chmod(path.c_str(), 0700) == 0 ? absl::OkStatus()
                                            : ErrnoStatus(errno, "keep others out of", path.string());
  }
  return FailedPrecondition(
      fmt::format("others may write in {} {} (owner {}, mode {:o}): give the "
                  "plugin a directory of its own",
                  what, Quote(path.string()), status.st_uid, status.st_mode & 07777));
}

}  // namespace

absl::StatusOr<std::string> MakeStateDir(const std::string& path) {
  std::error_code error;
  const mode_t before = ::umask(0077);  // one that is there already may be shared: what we put into it is private
  std::filesystem::create_directories(path, error);
  ::umask(before);
  if (error) return ErrnoStatus(error.value(), "make the state directory", path);
  const std::filesystem::path real = std::filesystem::canonical(path, error);
  if (error) return ErrnoStatus(error.value(), "find the state directory", path);
  MOORING_RETURN_IF_ERROR(CheckOwnDirectory(real, "the state directory"));
  return real.string();
}

absl::StatusOr<std::string> MakePoolDirectory(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return ErrnoStatus(errno, "make the directory", path);
  std::error_code error;
  const std::filesystem::path real = std::filesystem::canonical(path, error);
  if (error) return ErrnoStatus(error.value(), "find the directory", path);
  MOORING_RETURN_IF_ERROR(CheckOwnDirectory(real, "the directory of volumes"));
  return real.string();
}

std::string VolumesDirectory(const std::string& state_dir) { return state_dir + "/volumes"; }

}  // namespace mooring
