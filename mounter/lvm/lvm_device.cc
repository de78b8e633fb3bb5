#include "mounter/lvm/lvm_device.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
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

constexpr std::uint64_t kChunk = 128U << 20U;  // of one ioctl(2), which no signal ends
constexpr std::uint64_t kEnd = 16U << 20U;

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

absl::StatusOr<std::uint64_t> LvmDevice::Bytes() const {
  std::uint64_t bytes = 0;
  if (::ioctl(fd_.get(), BLKGETSIZE64, &bytes) != 0) return ErrnoStatus(errno, "ask for the size of", path_);
  return bytes;
}

absl::Status LvmDevice::Zero(std::uint64_t from, std::uint64_t end) const {
  for (; from < end; from += std::min(kChunk, end - from)) {
    std::array<std::uint64_t, 2> range = {from, std::min(kChunk, end - from)};
    if (::ioctl(fd_.get(), BLKZEROOUT, range.data()) != 0) {
      return ErrnoStatus(errno, fmt::format("clear {} bytes from {} on of", range[1], from), path_);
    }
  }
  return absl::OkStatus();
}

absl::Status LvmDevice::Sync() const {
  return ::fsync(fd_.get()) == 0 ? absl::OkStatus() : ErrnoStatus(errno, "write to disk", path_);
}

absl::Status LvmDevice::Clear(std::uint64_t from) const {
  MOORING_ASSIGN_OR_RETURN(const std::uint64_t bytes, Bytes());
  MOORING_RETURN_IF_ERROR(Zero(from, bytes));
  return Sync();
}

absl::Status LvmDevice::ClearEnds() const {
  MOORING_ASSIGN_OR_RETURN(const std::uint64_t bytes, Bytes());
  if (bytes <= kChunk) return Clear(0);  // all that ProbeFilesystem reads of a small device
  MOORING_RETURN_IF_ERROR(Zero(0, kEnd));
  MOORING_RETURN_IF_ERROR(Zero(bytes - kEnd, bytes));
  return Sync();
}

}  // namespace mooring
