// Puts the data of one file into another: the two share it where the filesystem can, else it is copied without holes.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file/unique_fd.h"

namespace mooring {

// FICLONE: the copy is of one instant, even while the source is written. False: the two cannot share, and `to` is still
// empty.
absl::StatusOr<bool> ShareData(const UniqueFd& from, const UniqueFd& to, const std::string& path);

// Copies the first `bytes` into the empty file `to`. A hole stays a hole. `path` is the source's, for messages.
absl::Status CopyExtents(const UniqueFd& from, const UniqueFd& to, off_t bytes, const std::string& path);

// Makes `to`, an earlier copy, equal to the first `bytes` of `from`, and returns how many bytes differed. Both are read
// and compared in full. Where `from` has a hole now, `to` gets one. DEADLINE_EXCEEDED: `deadline` passed first, and
// `to` is a mixture.
absl::StatusOr<std::uint64_t> CopyChanges(const UniqueFd& from, const UniqueFd& to, off_t bytes,
                                          const std::string& path, std::chrono::steady_clock::time_point deadline);

}  // namespace mooring
