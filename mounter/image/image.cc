#include "mounter/image/image.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>

#include "base/file/file_lock.h"
#include "base/file/path.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/path/target.h"

namespace mooring {
namespace {

// Matches exactly, so that no file that a person put there is taken for a leftover.
bool IsLeftover(std::string_view name, std::string_view image, std::string_view suffix) {
  constexpr std::size_t kDigits = 8;
  const std::string beginning = fmt::format("{}{}-", image, suffix);
  if (!name.starts_with(beginning)) return false;
  const std::string_view digits = name.substr(beginning.size());
  return digits.size() == kDigits && digits.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

}  // namespace

absl::Status CheckOneName(const struct stat& status, const std::string& path) {
  if (!S_ISREG(status.st_mode) || status.st_nlink <= 1) return absl::OkStatus();
  return FailedPrecondition(
      "{} is not used: it has {} names (hard links), and an image has one; find the others (find {} -xdev -samefile "
      "{}), and remove all names but this one",
      Quote(path), status.st_nlink, ParentOf(path), path);
}

absl::StatusOr<UniqueFd> OpenUnderLock(const std::string& path, const std::function<absl::StatusOr<UniqueFd>()>& open,
                                       std::chrono::milliseconds patience) {
  for (;;) {
    MOORING_ASSIGN_OR_RETURN(UniqueFd fd, open());
    MOORING_RETURN_IF_ERROR(LockFile(fd, path, patience));
    struct stat held = {}, now = {};
    if (::fstat(fd.get(), &held) != 0) return ErrnoStatus(errno, "look at", path);
    if (::lstat(path.c_str(), &now) == 0 && now.st_dev == held.st_dev && now.st_ino == held.st_ino) return fd;
  }
}

absl::StatusOr<LockedImage> LockImage(const std::string& path, std::chrono::milliseconds patience) {
  const auto open = [&path]() -> absl::StatusOr<UniqueFd> {
    MOORING_ASSIGN_OR_RETURN(UniqueFd fd, OpenNoSymlinks(path, O_RDONLY | O_NONBLOCK));  // a FIFO would never open
    struct stat status = {};
    if (::fstat(fd.get(), &status) != 0) return ErrnoStatus(errno, "look at", path);
    if (S_ISREG(status.st_mode) || S_ISBLK(status.st_mode)) return fd;
    return FailedPrecondition("{} is neither a file nor a block device", Quote(path));
  };
  LockedImage image;
  image.path = path;
  MOORING_ASSIGN_OR_RETURN(image.fd, OpenUnderLock(path, open, patience));
  if (::fstat(image.fd.get(), &image.status) != 0) return ErrnoStatus(errno, "look at", path);
  MOORING_RETURN_IF_ERROR(CheckOneName(image.status, path));
  return image;
}

absl::StatusOr<UniqueFd> Reopen(const LockedImage& image, int flags) {
  UniqueFd fd(::open(fmt::format("/proc/self/fd/{}", image.fd.get()).c_str(), flags | O_CLOEXEC));
  if (!fd.ok()) return ErrnoStatus(errno, "open", image.path);
  return fd;
}

std::string UndoFileOf(const std::string& image) { return image + std::string(kUndoSuffix); }

bool HasUndoFile(const std::string& image) {
  struct stat status = {};
  return ::lstat(UndoFileOf(image).c_str(), &status) == 0 || errno != ENOENT;
}

bool IsFormattingLeftover(std::string_view name, std::string_view image) {
  return IsLeftover(name, image, kFormattingSuffix);
}

bool IsCopyingLeftover(std::string_view name, std::string_view image) {
  return IsLeftover(name, image, kCopyingSuffix);
}

absl::Status GiveTo(const struct stat& owner, const UniqueFd& file, const std::string& path) {
  if (owner.st_uid == ::geteuid() || ::fchown(file.get(), owner.st_uid, owner.st_gid) == 0) return absl::OkStatus();
  return ErrnoStatus(errno, fmt::format("give to user {}", owner.st_uid), path);
}

}  // namespace mooring
