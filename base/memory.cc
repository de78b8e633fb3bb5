#include "base/memory.h"

#include <link.h>
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <stop_token>

namespace mooring {
namespace {

// Skips writable segments: their pages belong to this process alone, and their content would be lost.
int ReleaseCode(dl_phdr_info* object, std::size_t, void*) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = object->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_W) != 0) continue;
    const std::uintptr_t start = (object->dlpi_addr + segment.p_vaddr) & ~(page - 1);
    const std::uintptr_t end = object->dlpi_addr + segment.p_vaddr + segment.p_filesz;
    ::madvise(reinterpret_cast<void*>(start), end - start, MADV_DONTNEED);
  }
  return 0;
}

}  // namespace

void BoundHeap() {
  constexpr int kArenas = 4, kLargeBlock = 128 * 1024;
  ::mallopt(M_ARENA_MAX, kArenas);
  // These are the defaults, but glibc raises them with the size of freed blocks unless they are set, mallopt(3).
  ::mallopt(M_MMAP_THRESHOLD, kLargeBlock);
  ::mallopt(M_TRIM_THRESHOLD, kLargeBlock);
}

HeapTrimmer::HeapTrimmer()
    : thread_([](const std::stop_token& stop) {
        constexpr std::chrono::seconds kPause{5};
        constexpr std::size_t kMuch = std::size_t{8} * 1024 * 1024;
        std::mutex mutex;
        std::unique_lock<std::mutex> lock(mutex);
        std::condition_variable_any never;
        while (!never.wait_for(lock, stop, kPause, [] { return false; }) && !stop.stop_requested()) {
          if (::mallinfo2().fordblks > kMuch) ::malloc_trim(0);
        }
      }) {}

void ReleaseWhatTheStartUsed() {
  ::malloc_trim(0);
  ::dl_iterate_phdr(ReleaseCode, nullptr);
}

}  // namespace mooring
