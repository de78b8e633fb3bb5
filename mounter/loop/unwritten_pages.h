// Cached data of a block device that is not on its file or disk, and that the kernel takes for written.
//
//   - After a write has failed, the kernel takes its pages for clean, and the next fsync(2) finds nothing to write.
//   - A write of several blocks to a loop device counts as done if its file has room for the first of them
//     (lo_complete_rq of drivers/block/loop.c). So a flush may succeed, and the data is in memory only.
#pragma once

#include <cstddef>

namespace mooring {

// Compares the cached pages of the device with a direct read, and makes those dirty again that differ or cannot be
// read. Changes no content: a task may write at the same time. Returns their number. 0 also if the device cannot be
// opened for writing: then nothing was written to it through this cache.
std::size_t MakeUnwrittenDirty(int fd);

}  // namespace mooring
