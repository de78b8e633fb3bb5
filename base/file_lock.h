// An flock(2) on a file that processes share. It goes with the object, and with the process however that ends.
#ifndef MOORING_BASE_FILE_LOCK_H_
#define MOORING_BASE_FILE_LOCK_H_

#include <string>

#include "absl/status/statusor.h"
#include "base/unique_fd.h"

namespace mooring {

class FileLock {
 public:
  enum class Mode { kShared, kExclusive };

  // Waits for the lock; makes the file (0600) where it is missing.
  static absl::StatusOr<FileLock> Acquire(const std::string& path, Mode mode);

 private:
  explicit FileLock(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

}  // namespace mooring

#endif  // MOORING_BASE_FILE_LOCK_H_
