// An flock(2) that several processes share, with a time limit.
#pragma once

#include <chrono>
#include <string>

#include "absl/status/status.h"
#include "base/file/unique_fd.h"

namespace mooring {

// Takes the exclusive lock of an open file or directory. ABORTED: another process still holds it after `patience`.
// `path` is for the message.
absl::Status LockFile(const UniqueFd& file, const std::string& path, std::chrono::milliseconds patience);

}  // namespace mooring
