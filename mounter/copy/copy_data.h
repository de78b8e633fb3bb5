// The data of one file in another, in whichever way the filesystem has: shared, or copied without the holes.
#ifndef MOORING_MOUNTER_COPY_COPY_DATA_H_
#define MOORING_MOUNTER_COPY_COPY_DATA_H_

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file/unique_fd.h"

namespace mooring {

// FICLONE, of one instant whoever writes to the source. False: the two cannot share, and `to` is as it was, empty.
absl::StatusOr<bool> ShareData(const UniqueFd& from, const UniqueFd& to, const std::string& path);

// The first `bytes` of it. What is a hole in the source is one in `to`, which is empty before. `path` is of the source,
// for messages.
absl::Status CopyExtents(const UniqueFd& from, const UniqueFd& to, off_t bytes, const std::string& path);

// Makes `to`, an earlier copy, equal to the first `bytes` of `from`, and returns how many bytes were not. Both are read
// and compared in full: nothing but their contents decides. Where `from` has a hole now, `to` gets one.
// DEADLINE_EXCEEDED: `deadline` passed first; `to` is neither the one nor the other then.
absl::StatusOr<std::uint64_t> CopyChanges(const UniqueFd& from, const UniqueFd& to, off_t bytes,
                                          const std::string& path, std::chrono::steady_clock::time_point deadline);

}  // namespace mooring

#endif  // MOORING_MOUNTER_COPY_COPY_DATA_H_
