// An flock(2) that several processes may want, waited for within bounds.
#ifndef MOORING_BASE_FILE_FILE_LOCK_H_
#define MOORING_BASE_FILE_FILE_LOCK_H_

#include <chrono>
#include <string>

#include "absl/status/status.h"
#include "base/file/unique_fd.h"

namespace mooring {

// The exclusive lock of an open file, asked for until `patience` is over: then ABORTED. `path` is for the message.
absl::Status LockFile(const UniqueFd& file, const std::string& path, std::chrono::milliseconds patience);

}  // namespace mooring

#endif  // MOORING_BASE_FILE_FILE_LOCK_H_
