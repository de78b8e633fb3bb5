// Memory of an idle process.
#pragma once

#include <thread>

namespace mooring {

// Keeps the heap small after a burst of requests on many threads. There are few arenas, and large blocks go back to the
// kernel when they are freed. Call it at the beginning of main(), before there are threads.
void BoundHeap();

// Gives back freed heap, and the pages of code and constants that only the start has used, madvise(2). Pages that are
// used again come back from the page cache, in less than a microsecond each.
void ReleaseWhatTheStartUsed();

// Gives back memory that was freed in the middle of the heap, some seconds after a burst. free(3) gives back only the
// end of the heap. The object has a thread, with the privileges of the thread that creates the object.
class HeapTrimmer {
 public:
  HeapTrimmer();

 private:
  std::jthread thread_;
};

}  // namespace mooring
