#include "mounter/loop/unwritten_pages.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/fs.h>
#include <linux/loop.h>
#include <linux/major.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/file/directory.h"
#include "base/file/unique_fd.h"
#include "base/file/whole_file.h"
#include "base/status.h"
#include "mounter/encrypted_volumes.h"
#include "mounter/loop/loop_mounted.h"
#include "mounter/loop/loop_node.h"
#include "mounter/path/mapping_names.h"
#include "mounter/sys/device_name.h"
#include "mounter/sys/syscalls.h"

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

std::string SysfsOf(dev_t device) { return fmt::format("/sys/dev/block/{}:{}", major(device), minor(device)); }

// The devices below one of the device mapper.
std::vector<dev_t> DevicesBelow(dev_t device) {
  std::vector<dev_t> below;
  for (const std::string& name : EntriesOrNone(SysfsOf(device) + "/slaves").value_or(std::vector<std::string>())) {
    if (const std::optional<dev_t> number = BlockDeviceNumber(name)) below.push_back(*number);
  }
  return below;
}

// Whether a direct read asks the disk below, past every cache.
bool ReadsDirectly(dev_t device) {
  if (major(device) == LOOP_MAJOR) return FirstLine(SysfsOf(device) + "/loop/dio") == "1";
  const std::vector<dev_t> below = DevicesBelow(device);
  return std::all_of(below.begin(), below.end(), ReadsDirectly);
}

bool ReadsDirectly(int fd) {
  struct stat status = {};
  return ::fstat(fd, &status) == 0 && ReadsDirectly(status.st_rdev);
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

  enum class Wanted { kAll, kDiffering, kDifferingFromHole };

  absl::Status Find(Wanted wanted) { return FindBetween(0, bytes_, wanted); }

  absl::Status FindBetween(std::uint64_t begin, std::uint64_t end, Wanted wanted) {
    end = std::min(bytes_, (end + page_ - 1) / page_ * page_);  // a direct read takes whole blocks
    for (std::uint64_t at = begin / page_ * page_; at < end; at += kChunk) {
      MOORING_RETURN_IF_ERROR(FindInChunk(at, std::min(end, at + kChunk), wanted));
    }
    return absl::OkStatus();
  }

  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

  // After everything was compared, because a direct read writes what is dirty near it, and that write may fail again.
  // `is_still` is asked for each page right before. Returns the number of those that are still wanted.
  std::size_t MakeFoundDirty(const std::function<bool(std::uint64_t at, std::size_t size)>& is_still = {}) const {
    std::size_t made = 0;
    for (const std::uint64_t at : found_) {
      if (is_still && !is_still(at, page_)) continue;
      ++made;
      const Mapping page(page_, MAP_SHARED, cached_.get(), at);
      // A task may have made its device smaller, and a disk may fail: then this is an error, and a write is SIGBUS.
      if (page.get() != nullptr) ::madvise(page.get(), page_, MADV_POPULATE_WRITE);
    }
    return made;
  }

 private:
  absl::Status FindInChunk(std::uint64_t at, std::uint64_t chunk_end, Wanted wanted) {
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
      if (end > begin && MayHaveWanted(at + begin, end - begin, wanted)) {
        FindInRun(at + begin, at + end, wanted == Wanted::kAll);
      }
      begin = std::max(end, begin + page_);
    }
    return absl::OkStatus();
  }

  bool MayHaveWanted(std::uint64_t at, std::size_t size, Wanted wanted) {
    if (wanted == Wanted::kAll) return true;
    // A task has read there only. To read the hole itself would be slower.
    if (wanted == Wanted::kDifferingFromHole && ShowsZeros(at, size)) return false;
    return Compare(at, size) != Compared::kSame;
  }

  bool ShowsZeros(std::uint64_t at, std::size_t size) {
    const unsigned char* const first = in_cache_.get();
    return ReadAt(cached_, in_cache_.get(), size, at) && *first == 0 && std::memcmp(first, first + 1, size - 1) == 0;
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

constexpr char kUnnamed[] = "a block device";

// The file below a device.
struct FileBelow {
  UniqueFd fd = {};         // not open: the device has no regular file, or its path leads elsewhere now
  std::uint64_t begin = 0;  // where the data of the device begins in it
  bool is_plain = true;     // the data is as in the device; false: encrypted
};

UniqueFd OpenFileOf(dev_t device) {
  const UniqueFd loop = OpenLoopNode(minor(device), O_RDONLY);
  loop_info64 info = {};
  if (!loop.ok() || ::ioctl(loop.get(), LOOP_GET_STATUS64, &info) != 0 || info.lo_offset != 0) return UniqueFd();
  const std::string path = FirstLine(SysfsOf(device) + "/loop/backing_file");
  UniqueFd file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat status = {};
  const bool is_it = file.ok() && ::fstat(file.get(), &status) == 0 && S_ISREG(status.st_mode) &&
                     status.st_ino == info.lo_inode && status.st_dev == info.lo_device;
  return is_it ? std::move(file) : UniqueFd();
}

// `device`: a loop device, or the mapping of an encrypted volume on one.
FileBelow FindFileBelow(dev_t device) {
  if (major(device) == LOOP_MAJOR) return {.fd = OpenFileOf(device)};
  const std::vector<dev_t> below = DevicesBelow(device);
  const bool is_encrypted = FirstLine(SysfsOf(device) + "/dm/uuid").starts_with("CRYPT-LUKS2-") &&
                            FirstLine(SysfsOf(device) + "/dm/name").starts_with(kMappingPrefix);
  if (!is_encrypted || below.size() != 1 || major(below.front()) != LOOP_MAJOR) return {};
  return {.fd = OpenFileOf(below.front()), .begin = kEncryptionHeader, .is_plain = false};
}

bool IsHole(int file, std::uint64_t at, std::size_t size) {
  const off_t data = ::lseek(file, static_cast<off_t>(at), SEEK_DATA);
  return data < 0 ? errno == ENXIO : static_cast<std::uint64_t>(data) >= at + size;
}

// Where nothing is cached, Linux 6.5 says so at once: cachestat(2). An older kernel is asked for each page, and so for
// the first kMost bytes of holes only.
class CachedAreas {
 public:
  explicit CachedAreas(int fd) : fd_(fd) {}
  bool MayHave(std::uint64_t begin, std::uint64_t end) {
    const std::uint64_t size = end - begin;
    if (const ssize_t cached = sys::CountCachedPages(fd_, begin, size); cached >= 0) return cached != 0;
    const bool may = size <= left_;
    left_ -= std::min(left_, size);
    return may;
  }

 private:
  static constexpr std::uint64_t kMost = std::uint64_t{16} << 30U;
  const int fd_;
  std::uint64_t left_ = kMost;
};

// A file that does not tell its holes has none that are known.
absl::Status FindInHoles(CachedPages& pages, int fd, const FileBelow& file) {
  const CachedPages::Wanted wanted =
      file.is_plain ? CachedPages::Wanted::kDifferingFromHole : CachedPages::Wanted::kDiffering;
  const std::uint64_t end_of_data = file.begin + pages.bytes();
  CachedAreas areas(fd);
  for (auto at = static_cast<off_t>(file.begin); at >= 0 && static_cast<std::uint64_t>(at) < end_of_data;) {
    const off_t hole = ::lseek(file.fd.get(), at, SEEK_HOLE);
    if (hole < 0) return absl::OkStatus();
    at = ::lseek(file.fd.get(), hole, SEEK_DATA);
    const std::uint64_t end = at < 0 ? end_of_data : std::min(end_of_data, static_cast<std::uint64_t>(at));
    const auto begin = static_cast<std::uint64_t>(hole);
    if (begin < end && areas.MayHave(begin - file.begin, end - file.begin))
      MOORING_RETURN_IF_ERROR(pages.FindBetween(begin - file.begin, end - file.begin, wanted));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::size_t> MakeDirty(int fd, bool all) {
  // A filesystem or the device mapper on it writes past the cache of the device, which may be old then.
  MOORING_ASSIGN_OR_RETURN(const bool stays_claimed, StaysClaimed(fd, kUnnamed));
  if (stays_claimed) return 0;
  CachedPages pages;
  MOORING_RETURN_IF_ERROR(pages.Open(fd));
  if (!pages.is_open()) return 0;
  MOORING_RETURN_IF_ERROR(pages.Find(all ? CachedPages::Wanted::kAll : CachedPages::Wanted::kDiffering));
  return pages.MakeFoundDirty();
}

}  // namespace

absl::StatusOr<std::size_t> MakeSwallowedDirty(int fd) {
  struct stat device = {};
  if (::fstat(fd, &device) != 0) return 0;
  MOORING_ASSIGN_OR_RETURN(const bool is_claimed, IsClaimed(fd, kUnnamed));
  if (is_claimed) return 0;
  CachedPages pages;
  MOORING_RETURN_IF_ERROR(pages.Open(fd));
  if (!pages.is_open()) return 0;  // the file of a reader's device is not asked, because it may hang
  const FileBelow file = FindFileBelow(device.st_rdev);
  if (!file.fd.ok()) return 0;
  MOORING_RETURN_IF_ERROR(FindInHoles(pages, fd, file));
  return pages.MakeFoundDirty(
      [&file](std::uint64_t at, std::size_t size) { return IsHole(file.fd.get(), file.begin + at, size); });
}

absl::StatusOr<std::size_t> MakeUnwrittenDirty(int fd) { return MakeDirty(fd, false); }

absl::Status MakeDirtyAgain(int fd) { return MakeDirty(fd, !ReadsDirectly(fd)).status(); }

}  // namespace mooring
