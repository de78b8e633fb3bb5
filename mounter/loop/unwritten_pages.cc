#include "mounter/loop/unwritten_pages.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/fs.h>
#include <linux/loop.h>
#include <linux/major.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "base/file/unique_fd.h"
#include "base/status.h"

namespace mooring {
namespace {

constexpr std::size_t kRun = std::size_t{1} << 20U;     // bytes that are compared at once
constexpr std::size_t kChunk = std::size_t{64} << 20U;  // bytes that are mapped at once

class Mapping {
 public:
  Mapping(std::size_t size, int flags, int fd, std::uint64_t at) : size_(size) {
    void* const memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, flags, fd, static_cast<off_t>(at));
    if (memory != MAP_FAILED) memory_ = static_cast<unsigned char*>(memory);
  }
  ~Mapping() {
    if (memory_ != nullptr) ::munmap(memory_, size_);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  [[nodiscard]] unsigned char* get() const { return memory_; }  // nullptr: there is no memory

 private:
  const std::size_t size_;
  unsigned char* memory_ = nullptr;
};

bool ReadAt(const UniqueFd& fd, unsigned char* memory, std::size_t size, std::uint64_t at) {
  return ::pread(fd.get(), memory, size, static_cast<off_t>(at)) == static_cast<ssize_t>(size);
}

// Whether a direct read asks the disk below, past every cache.
bool ReadsDirectly(int fd) {
  struct stat status = {};
  if (::fstat(fd, &status) != 0) return false;
  if (major(status.st_rdev) != LOOP_MAJOR) return true;
  std::ifstream dio(fmt::format("/sys/dev/block/{}:{}/loop/dio", major(status.st_rdev), minor(status.st_rdev)));
  return dio.get() == '1';
}

class CachedPages {
 public:
  // OK and not open: the device is read-only.
  absl::Status Open(int fd) {
    int is_read_only = 0;
    if (::ioctl(fd, BLKROGET, &is_read_only) == 0 && is_read_only != 0)
      return absl::OkStatus();  // no mmap(2) for writing
    const std::string path = fmt::format("/proc/self/fd/{}", fd);
    cached_ = UniqueFd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    if (!cached_.ok() && (errno == EROFS || errno == EACCES || errno == EPERM)) return absl::OkStatus();
    if (!cached_.ok()) return ErrnoStatus(errno, "open for writing", path);
    ::posix_fadvise(cached_.get(), 0, 0, POSIX_FADV_RANDOM);  // no read-ahead
    direct_ = UniqueFd(::open(path.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC));
    if (!direct_.ok()) return ErrnoStatus(errno, "open for direct reading", path);
    if (::ioctl(fd, BLKGETSIZE64, &bytes_) != 0) return ErrnoStatus(errno, "ask for the size of", path);
    if (in_cache_.get() == nullptr || below_.get() == nullptr) return ErrnoStatus(ENOMEM, "compare", path);
    return absl::OkStatus();
  }

  bool is_open() const { return cached_.ok(); }

  absl::Status Find(bool all) { return FindBetween(0, bytes_, all); }

  absl::Status FindBetween(std::uint64_t begin, std::uint64_t end, bool all) {
    end = std::min(end, bytes_);
    for (std::uint64_t at = begin / page_ * page_; at < end; at += kChunk) {
      MOORING_RETURN_IF_ERROR(FindInChunk(at, std::min(end, at + kChunk), all));
    }
    return absl::OkStatus();
  }

  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

  // After everything was compared, because a direct read writes what is dirty near it, and that write may fail again.
  std::size_t MakeFoundDirty() const {
    for (const std::uint64_t at : found_) {
      const Mapping page(page_, MAP_SHARED, cached_.get(), at);
      // A task may have made its device smaller, and a disk may fail: then this is an error, and a write is SIGBUS.
      if (page.get() != nullptr) ::madvise(page.get(), page_, MADV_POPULATE_WRITE);
    }
    return found_.size();
  }

 private:
  absl::Status FindInChunk(std::uint64_t at, std::uint64_t chunk_end, bool all) {
    const auto size = static_cast<std::size_t>(chunk_end - at);
    const Mapping chunk(size, MAP_SHARED, cached_.get(), at);
    std::vector<unsigned char> is_cached((size + page_ - 1) / page_);
    if (chunk.get() == nullptr || ::mincore(chunk.get(), size, is_cached.data()) != 0) {
      return ErrnoStatus(errno, "ask for the cached pages of", "a block device");
    }
    for (std::size_t begin = 0; begin < size;) {
      std::size_t end = begin;
      while (end < size && end - begin < kRun && (is_cached[end / page_] & 1U) != 0) end += page_;
      end = std::min(end, size);
      if (end > begin && (all || Compare(at + begin, end - begin) != Compared::kSame)) {
        FindInRun(at + begin, at + end, all);
      }
      begin = std::max(end, begin + page_);
    }
    return absl::OkStatus();
  }

  void FindInRun(std::uint64_t begin, std::uint64_t end, bool all) {
    for (std::uint64_t at = begin; at < end; at += page_) {
      const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(page_, end - at));
      if (all || IsUnwritten(at, size)) found_.push_back(at);
    }
  }

  enum class Compared { kSame, kDiffers, kNotCached };

  // The direct read writes what is dirty first. Its EINVAL is a device whose blocks do not end with it.
  Compared Compare(std::uint64_t at, std::size_t size) {
    if (!ReadAt(cached_, in_cache_.get(), size, at)) return Compared::kNotCached;
    errno = 0;
    if (!ReadAt(direct_, below_.get(), size, at)) return errno == EINVAL ? Compared::kSame : Compared::kDiffers;
    return std::memcmp(in_cache_.get(), below_.get(), size) == 0 ? Compared::kSame : Compared::kDiffers;
  }

  // A page that a task changes at this moment is dirty without this.
  bool IsUnwritten(std::uint64_t at, std::size_t size) {
    if (Compare(at, size) != Compared::kDiffers) return false;
    const std::vector<unsigned char> before(in_cache_.get(), in_cache_.get() + size);
    return ReadAt(cached_, in_cache_.get(), size, at) && std::memcmp(in_cache_.get(), before.data(), size) == 0;
  }

  const std::size_t page_ = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  UniqueFd cached_, direct_;
  std::uint64_t bytes_ = 0;
  std::vector<std::uint64_t> found_ = {};  // where the pages begin
  const Mapping in_cache_{kRun, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0};
  const Mapping below_{kRun, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0};  // aligned, as a direct read needs it
};

// The file of a loop device, if its path still leads to it. Not open: it does not, or the device has no regular file.
UniqueFd OpenFileOf(int fd) {
  struct stat device = {};
  loop_info64 loop = {};
  if (::fstat(fd, &device) != 0 || major(device.st_rdev) != LOOP_MAJOR) return UniqueFd();
  if (::ioctl(fd, LOOP_GET_STATUS64, &loop) != 0) return UniqueFd();
  std::ifstream sysfs(
      fmt::format("/sys/dev/block/{}:{}/loop/backing_file", major(device.st_rdev), minor(device.st_rdev)));
  std::string path;
  std::getline(sysfs, path);
  UniqueFd file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat status = {};
  const bool is_it =
      file.ok() && ::fstat(file.get(), &status) == 0 && S_ISREG(status.st_mode) && status.st_ino == loop.lo_inode;
  return is_it ? std::move(file) : UniqueFd();
}

// A write that finds no room fails only on such a filesystem, unless room was made since then.
bool IsNearlyFull(int file) {
  constexpr std::uint64_t kMuch = std::uint64_t{1} << 30U;
  struct statvfs status = {};
  if (::fstatvfs(file, &status) != 0) return true;
  const std::uint64_t available = std::uint64_t{status.f_bavail} * status.f_frsize;
  return available < std::min(kMuch, std::uint64_t{status.f_blocks} * status.f_frsize / 20);
}

// cachestat(2) of Linux 6.5, which is quick where nothing is cached. An older kernel is asked page by page.
bool HasCachedPages(int fd, std::uint64_t begin, std::uint64_t end) {
  constexpr long kCacheStat = 451;
  struct {
    std::uint64_t offset, size;
  } range = {begin, end - begin};
  struct {
    std::uint64_t cached, others[4];
  } found = {};
  return ::syscall(kCacheStat, fd, &range, &found, 0) != 0 || found.cached != 0;
}

absl::Status FindInHoles(CachedPages& pages, int fd, int file) {
  for (off_t at = 0; at >= 0 && static_cast<std::uint64_t>(at) < pages.bytes();) {
    const off_t hole = ::lseek(file, at, SEEK_HOLE);
    if (hole < 0)
      return errno == ENXIO ? absl::OkStatus() : ErrnoStatus(errno, "look for holes in the file of", "a device");
    const off_t data = ::lseek(file, hole, SEEK_DATA);
    const std::uint64_t end = data < 0 ? pages.bytes() : static_cast<std::uint64_t>(data);
    const auto begin = static_cast<std::uint64_t>(hole);
    if (begin < end && HasCachedPages(fd, begin, end)) MOORING_RETURN_IF_ERROR(pages.FindBetween(begin, end, false));
    at = data;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::size_t> MakeDirty(int fd, bool all) {
  CachedPages pages;
  MOORING_RETURN_IF_ERROR(pages.Open(fd));
  if (!pages.is_open()) return 0;
  MOORING_RETURN_IF_ERROR(pages.Find(all));
  return pages.MakeFoundDirty();
}

}  // namespace

absl::StatusOr<std::size_t> MakeSwallowedDirty(int fd) {
  CachedPages pages;
  MOORING_RETURN_IF_ERROR(pages.Open(fd));
  if (!pages.is_open()) return 0;  // before its file is asked, which may hang
  const UniqueFd file = OpenFileOf(fd);
  if (!file.ok()) return 0;
  MOORING_RETURN_IF_ERROR(IsNearlyFull(file.get()) ? pages.Find(false) : FindInHoles(pages, fd, file.get()));
  return pages.MakeFoundDirty();
}

absl::StatusOr<std::size_t> MakeUnwrittenDirty(int fd) { return MakeDirty(fd, false); }

absl::Status MakeDirtyAgain(int fd) { return MakeDirty(fd, !ReadsDirectly(fd)).status(); }

}  // namespace mooring
