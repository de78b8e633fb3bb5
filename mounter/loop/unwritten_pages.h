// Cached data of a block device that is not on its file or disk, and that the kernel takes for written.
//
//   - After a write has failed, the kernel takes its pages for clean, and the next fsync(2) finds nothing to write.
//   - A write of several blocks to a loop device counts as done if its file has room for the first of them
//     (lo_complete_rq of drivers/block/loop.c). So a flush may succeed, and the data is in memory only.
//
// The functions make pages dirty without changing their content, so a task may write at the same time. They take what
// is in the cache for newer than what is below. A filesystem or the device mapper on the device would make that untrue,
// because they write past its cache. So a device that one of them has claimed is left alone. Partitions claim nothing.
#pragma once

#include <cstddef>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mooring {

// Compares the cached pages of the device with a direct read, and makes those dirty again that differ or cannot be read
// directly. Returns their number; 0 if the device is read-only or claimed. An error: nothing is known.
absl::StatusOr<std::size_t> MakeUnwrittenDirty(int fd);

// The same, at little cost, for a device whose last flush was good. It is a loop device over a file, or the mapping of
// an encrypted volume on one. A write that found no room leaves a hole in the file. So only cached pages over holes are
// compared, and made dirty if the hole is still there. A write into shared extents is not found. Nor is one to a file
// that tells no holes, or that has another path now. 0 also: the device is another one, read-only or claimed.
absl::StatusOr<std::size_t> MakeSwallowedDirty(int fd);

// The same after a failed write. A loop device without direct I/O answers a direct read from the cache of its file,
// which has data that the file's disk lacks. So all cached pages of such a device are made dirty.
absl::Status MakeDirtyAgain(int fd);

}  // namespace mooring
