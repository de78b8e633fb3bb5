// What an idle process keeps in memory.
#ifndef MOORING_BASE_MEMORY_H_
#define MOORING_BASE_MEMORY_H_

#include <thread>

namespace mooring {

// A burst of requests on many threads leaves no heap behind: there are few arenas, and a large block goes back to the
// kernel when it is freed. For the beginning of main(), before there are threads.
void BoundHeap();

// Lets go of the pages of code and constants that only the start has used, madvise(2), and of freed heap. What is used
// again comes back from the page cache at its first use, for less than a microsecond a page.
void ReleaseWhatTheStartUsed();

// Gives much that was freed in the middle of the heap back, some seconds after a burst: free(3) gives back its end
// alone. A thread of its own, which has the privileges of whoever makes it.
class HeapTrimmer {
 public:
  HeapTrimmer();

 private:
  std::jthread thread_;
};

}  // namespace mooring

#endif  // MOORING_BASE_MEMORY_H_
