#include "mounter/copy/copy_data.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/status.h"
#include "base/text/quote.h"

namespace mooring {
namespace {

struct Extent {
  off_t begin = 0;
  off_t end = 0;
};

absl::Status CopyError(int error, const std::string& path) { return ErrnoStatus(error, "copy the data of", path); }

// The next data at or behind `from`; empty at the end of the file. A filesystem without holes reports all as data.
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
    if (got == 0) return Internal("{} ended while it was copied", Quote(path));
    MOORING_RETURN_IF_ERROR(WriteAll(to, buffer.data(), static_cast<std::size_t>(got), extent.begin, path));
    extent.begin += got;
  }
  return absl::OkStatus();
}

// Copies as far as copy_file_range(2) goes, and returns the rest. The call may fail between two filesystems or under a
// seccomp profile. Any other failure comes again, and is reported, when the rest is copied by hand.
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

using Clock = std::chrono::steady_clock;

// Reads `size` bytes, with zeros behind the end of the file.
absl::Status ReadAll(const UniqueFd& file, char* data, std::size_t size, off_t at, const std::string& path) {
  while (size > 0) {
    const ssize_t got = ::pread(file.get(), data, size, at);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return CopyError(errno, path);
    if (got == 0) {
      std::memset(data, 0, size);
      return absl::OkStatus();
    }
    data += got;
    size -= static_cast<std::size_t>(got);
    at += got;
  }
  return absl::OkStatus();
}

// Makes one file equal to another, range by range.
class Comparison {
 public:
  Comparison(const UniqueFd& from, const UniqueFd& to, const std::string& path, Clock::time_point deadline)
      : from_(from), to_(to), path_(path), deadline_(deadline), wanted_(kChunk), found_(kChunk) {}

  absl::Status Data(Extent extent) {
    for (; extent.begin < extent.end; extent.begin += kChunk) {
      MOORING_RETURN_IF_ERROR(CheckTime());
      const std::size_t size = SizeOfNext(extent);
      MOORING_RETURN_IF_ERROR(ReadAll(from_, wanted_.data(), size, extent.begin, path_));
      MOORING_RETURN_IF_ERROR(Write(size, extent.begin));
    }
    return absl::OkStatus();
  }

  // Removes the data that an earlier pass wrote there. A filesystem that cannot punch holes gets zeros.
  absl::Status Hole(Extent hole) {
    while (hole.begin < hole.end) {
      MOORING_RETURN_IF_ERROR(CheckTime());
      MOORING_ASSIGN_OR_RETURN(Extent stale, NextExtent(to_, hole.begin, hole.end, path_));
      if (stale.begin < stale.end) MOORING_RETURN_IF_ERROR(Clear(stale));
      hole.begin = stale.end;
    }
    return absl::OkStatus();
  }

  std::uint64_t changed() const { return changed_; }

 private:
  static constexpr off_t kChunk = off_t{1} << 18U;
  static constexpr std::size_t kPiece = std::size_t{1} << 12U;

  static std::size_t SizeOfNext(Extent extent) {
    return static_cast<std::size_t>(std::min(kChunk, extent.end - extent.begin));
  }

  absl::Status CheckTime() const {
    if (Clock::now() < deadline_) return absl::OkStatus();
    return absl::DeadlineExceededError(fmt::format("comparing {} with its copy took too long", Quote(path_)));
  }

  // The pieces of the chunk in wanted_ that differ.
  absl::Status Write(std::size_t size, off_t at) {
    MOORING_RETURN_IF_ERROR(ReadAll(to_, found_.data(), size, at, path_));
    if (std::memcmp(wanted_.data(), found_.data(), size) == 0) return absl::OkStatus();
    for (std::size_t piece = 0; piece < size; piece += kPiece) {
      const std::size_t length = std::min(kPiece, size - piece);
      if (std::memcmp(&wanted_[piece], &found_[piece], length) == 0) continue;
      MOORING_RETURN_IF_ERROR(WriteAll(to_, &wanted_[piece], length, at + static_cast<off_t>(piece), path_));
      changed_ += length;
    }
    return absl::OkStatus();
  }

  absl::Status Clear(Extent stale) {
    const off_t length = stale.end - stale.begin;
    if (::fallocate(to_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, stale.begin, length) == 0) {
      changed_ += static_cast<std::uint64_t>(length);
      return absl::OkStatus();
    }
    if (errno != EOPNOTSUPP) return CopyError(errno, path_);
    for (; stale.begin < stale.end; stale.begin += kChunk) {
      std::memset(wanted_.data(), 0, wanted_.size());
      MOORING_RETURN_IF_ERROR(Write(SizeOfNext(stale), stale.begin));
    }
    return absl::OkStatus();
  }

  const UniqueFd& from_;
  const UniqueFd& to_;
  const std::string& path_;
  const Clock::time_point deadline_;
  std::vector<char> wanted_, found_;
  std::uint64_t changed_ = 0;
};

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

absl::StatusOr<std::uint64_t> CopyChanges(const UniqueFd& from, const UniqueFd& to, off_t bytes,
                                          const std::string& path, Clock::time_point deadline) {
  Comparison comparison(from, to, path, deadline);
  for (off_t at = 0; at < bytes;) {
    MOORING_ASSIGN_OR_RETURN(const Extent extent, NextExtent(from, at, bytes, path));
    MOORING_RETURN_IF_ERROR(comparison.Hole({at, extent.begin}));
    MOORING_RETURN_IF_ERROR(comparison.Data(extent));
    at = extent.end;
  }
  return comparison.changed();
}

}  // namespace mooring
