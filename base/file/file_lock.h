// Locks of open files that several processes share, with a time limit.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>

#include "absl/status/status.h"
#include "base/file/unique_fd.h"

namespace mooring {

// Takes the exclusive flock(2) of an open file or directory. ABORTED: another process still holds it after `patience`.
// `path` is for the message.
absl::Status LockFile(const UniqueFd& file, const std::string& path, std::chrono::milliseconds patience);

// The same with a lock of one byte, fcntl_locking(2), which may lie beyond the end. The lock belongs to the open file
// description. It is exclusive, or shared if the description is open for reading only.
absl::Status LockByte(const UniqueFd& file, off_t byte, const std::string& path, std::chrono::milliseconds patience);

}  // namespace mooring
