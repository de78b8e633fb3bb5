#include "mounter/loop/unwritten_pages.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "base/file/unique_fd.h"

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

class Comparison {
 public:
  explicit Comparison(int fd) {
    const std::string path = fmt::format("/proc/self/fd/{}", fd);
    cached_ = UniqueFd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    direct_ = UniqueFd(::open(path.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC));
    if (cached_.ok()) ::posix_fadvise(cached_.get(), 0, 0, POSIX_FADV_RANDOM);  // no read-ahead
    if (::ioctl(fd, BLKGETSIZE64, &bytes_) != 0) bytes_ = 0;
  }

  // Compares everything first, because a direct read writes what is dirty near it, and that write may fail again.
  std::size_t MakeUnwrittenDirty() {
    if (!cached_.ok() || in_cache_.get() == nullptr || below_.get() == nullptr) return 0;
    for (std::uint64_t at = 0; at < bytes_; at += kChunk) FindInChunk(at);
    for (const std::uint64_t at : unwritten_) {
      const Mapping page(page_, MAP_SHARED, cached_.get(), at);
      if (page.get() != nullptr) __atomic_fetch_or(page.get(), 0, __ATOMIC_RELAXED);
    }
    return unwritten_.size();
  }

 private:
  void FindInChunk(std::uint64_t at) {
    const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(kChunk, bytes_ - at));
    const Mapping chunk(size, MAP_SHARED, cached_.get(), at);
    std::vector<unsigned char> is_cached((size + page_ - 1) / page_);
    if (chunk.get() == nullptr || ::mincore(chunk.get(), size, is_cached.data()) != 0) return;
    for (std::size_t begin = 0; begin < size;) {
      std::size_t end = begin;
      while (end < size && end - begin < kRun && (is_cached[end / page_] & 1U) != 0) end += page_;
      end = std::min(end, size);
      if (end > begin && !IsSame(at + begin, end - begin)) FindInRun(at + begin, at + end);
      begin = std::max(end, begin + page_);
    }
  }

  void FindInRun(std::uint64_t begin, std::uint64_t end) {
    for (std::uint64_t at = begin; at < end; at += page_) {
      if (IsUnwritten(at, static_cast<std::size_t>(std::min<std::uint64_t>(page_, end - at)))) unwritten_.push_back(at);
    }
  }

  // The direct read writes what is dirty first.
  bool IsSame(std::uint64_t at, std::size_t size) {
    return ReadAt(cached_, in_cache_.get(), size, at) && ReadAt(direct_, below_.get(), size, at) &&
           std::memcmp(in_cache_.get(), below_.get(), size) == 0;
  }

  // A page that a task changes at this moment is dirty without this.
  bool IsUnwritten(std::uint64_t at, std::size_t size) {
    if (IsSame(at, size)) return false;
    const std::vector<unsigned char> before(in_cache_.get(), in_cache_.get() + size);
    return !ReadAt(cached_, in_cache_.get(), size, at) || std::memcmp(in_cache_.get(), before.data(), size) == 0;
  }

  const std::size_t page_ = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  UniqueFd cached_, direct_;
  std::uint64_t bytes_ = 0;
  std::vector<std::uint64_t> unwritten_ = {};  // where such pages begin
  const Mapping in_cache_{kRun, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0};
  const Mapping below_{kRun, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0};  // aligned, as a direct read needs it
};

}  // namespace

std::size_t MakeUnwrittenDirty(int fd) { return Comparison(fd).MakeUnwrittenDirty(); }

}  // namespace mooring
