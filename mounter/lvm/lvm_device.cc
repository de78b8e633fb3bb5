#include "mounter/lvm/lvm_device.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstdlib>

#include "base/file/whole_file.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/path/target.h"

namespace mooring {
namespace {

// udev may have put a link to /dev/dm-N in the place of the node that lvm made.
absl::StatusOr<std::string> WithoutLinks(const std::string& path) {
  std::array<char, PATH_MAX> real = {};
  if (::realpath(path.c_str(), real.data()) == nullptr) return Unexpected(ErrnoStatus(errno, "find the device", path));
  return std::string(real.data());
}

// An old node or link may lead to the number of another device.
absl::Status CheckIsMapping(const UniqueFd& fd, const std::string& path, const std::string& name) {
  struct stat status = {};
  if (::fstat(fd.get(), &status) != 0) return ErrnoStatus(errno, "look at", path);
  if (!S_ISBLK(status.st_mode)) return FailedPrecondition("{} is no block device", Quote(path));
  const std::string file = fmt::format("/sys/dev/block/{}:{}/dm/name", major(status.st_rdev), minor(status.st_rdev));
  MOORING_ASSIGN_OR_RETURN(std::string found, ReadWholeFile(file));
  while (found.ends_with('\n')) found.pop_back();
  if (found == name) return absl::OkStatus();
  return FailedPrecondition("{} leads to the device mapping {} instead of {}: run dmsetup mknodes, which mends it",
                            Quote(path), Quote(found), Quote(name));
}

}  // namespace

absl::StatusOr<LvmDevice> LvmDevice::Open(const LvmPool& pool, const std::string& name, int flags) {
  MOORING_ASSIGN_OR_RETURN(std::string path, WithoutLinks(LvmDevicePath(pool, name)));
  absl::StatusOr<UniqueFd> fd = OpenNoSymlinks(path, static_cast<std::uint64_t>(flags) | O_NONBLOCK);
  if (absl::IsFailedPrecondition(fd.status()) && (flags & O_EXCL) != 0) {
    return FailedPrecondition("the logical volume {}/{} is in use: unpublish and unstage it first ({})", pool.group,
                              name, Message(fd.status()));
  }
  if (!fd.ok()) return Unexpected(fd.status());
  MOORING_RETURN_IF_ERROR(CheckIsMapping(*fd, path, LvmDeviceName(pool.group, name)));
  return LvmDevice(*std::move(fd), std::move(path));
}

absl::Status LvmDevice::Sync() const {
  return ::fsync(fd_.get()) == 0 ? absl::OkStatus() : ErrnoStatus(errno, "write to disk", path_);
}

}  // namespace mooring
