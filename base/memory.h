// What an idle process keeps in memory.
#ifndef MOORING_BASE_MEMORY_H_
#define MOORING_BASE_MEMORY_H_

namespace mooring {

// Lets go of the pages of code and constants that only the start has used, madvise(2), and of freed heap. What is used
// again comes back from the page cache at its first use, for less than a microsecond a page.
void ReleaseWhatTheStartUsed();

}  // namespace mooring

#endif  // MOORING_BASE_MEMORY_H_
