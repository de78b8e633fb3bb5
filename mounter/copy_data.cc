#include "mounter/copy_data.h"

#include <fmt/format.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "base/quote.h"
#include "base/status.h"

namespace mooring {
namespace {

struct Extent {
  off_t begin = 0;
  off_t end = 0;
};

absl::Status CopyError(int error, const std::string& path) { return ErrnoStatus(error, "copy the data of", path); }

// The next data at or behind `from`; empty at the end of the file. A filesystem that knows no holes says it is all
// data.
absl::StatusOr<Extent> NextExtent(const UniqueFd& file, off_t from, off_t bytes, const std::string& path) {
  const off_t begin = ::lseek(file.get(), from, SEEK_DATA);
  if (begin < 0 && errno == ENXIO) return Extent{bytes, bytes};
  if (begin < 0) return ErrnoStatus(errno, "look for data in", path);
  const off_t end = ::lseek(file.get(), begin, SEEK_HOLE);
  if (end < 0) return ErrnoStatus(errno, "look for a hole in", path);
  return Extent{std::min(begin, bytes), std::min(end, bytes)};
}

absl::Status WriteAll(const UniqueFd& to, const char* data, std::size_t size, off_t at, const std::string& path) {
  while (size > 0) {
    const ssize_t done = ::pwrite(to.get(), data, size, at);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return CopyError(errno, path);
    data += done;
    size -= static_cast<std::size_t>(done);
    at += done;
  }
  return absl::OkStatus();
}

absl::Status CopyByHand(const UniqueFd& from, const UniqueFd& to, Extent extent, const std::string& path) {
  constexpr off_t kChunk = off_t{1} << 20U;
  std::vector<char> buffer(static_cast<std::size_t>(std::min(kChunk, extent.end - extent.begin)));
  while (extent.begin < extent.end) {
    const auto most = static_cast<std::size_t>(std::min(kChunk, extent.end - extent.begin));
    const ssize_t got = ::pread(from.get(), buffer.data(), most, extent.begin);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return CopyError(errno, path);
    if (got == 0) return Internal(fmt::format("{} ended while it was copied", Quote(path)));
    MOORING_RETURN_IF_ERROR(WriteAll(to, buffer.data(), static_cast<std::size_t>(got), extent.begin, path));
    extent.begin += got;
  }
  return absl::OkStatus();
}

// As far as it goes: two filesystems, old kernels and some seccomp profiles do not have it. Failures that are not about
// that come again, and are told, where the rest is copied by hand.
Extent CopyInKernel(const UniqueFd& from, const UniqueFd& to, Extent extent) {
  constexpr off_t kChunk = off_t{1} << 27U;
  while (extent.begin < extent.end) {
    off_t in = extent.begin, out = extent.begin;
    const auto most = static_cast<std::size_t>(std::min(kChunk, extent.end - extent.begin));
    const ssize_t done = ::copy_file_range(from.get(), &in, to.get(), &out, most, 0);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) break;
    extent.begin += done;
  }
  return extent;
}

bool MeansCannotShare(int error) {
  return error == EOPNOTSUPP || error == EXDEV || error == EINVAL || error == ENOTTY || error == ENOSYS;
}

}  // namespace

absl::StatusOr<bool> ShareData(const UniqueFd& from, const UniqueFd& to, const std::string& path) {
  if (::ioctl(to.get(), FICLONE, from.get()) == 0) return true;
  if (MeansCannotShare(errno)) return false;
  return ErrnoStatus(errno, "share the data of", path);
}

absl::Status CopyExtents(const UniqueFd& from, const UniqueFd& to, off_t bytes, const std::string& path) {
  for (off_t at = 0; at < bytes;) {
    MOORING_ASSIGN_OR_RETURN(const Extent extent, NextExtent(from, at, bytes, path));
    MOORING_RETURN_IF_ERROR(CopyByHand(from, to, CopyInKernel(from, to, extent), path));
    at = extent.end;
  }
  return absl::OkStatus();
}

}  // namespace mooring
