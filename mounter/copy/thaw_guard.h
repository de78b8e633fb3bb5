// Thaws filesystems when the process that froze them dies, or takes too long.
//
// A freeze outlives its process, so a SIGKILL would leave every writer waiting. The guard is another process
// (mounter/process/side_process.h), which starts before the first freeze. It holds the root directories open, and a
// pipe that closes when the first process ends.
#pragma once

#include <sys/types.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/file/unique_fd.h"

namespace mooring {

class ThawGuard {
 public:
  // Returns when the guard is ready. After `bound`, the guard thaws the filesystems of `roots`, whatever this process
  // does. Before that it limits how often they repeat a failed write (Superblock::retry_limits, which outlive the
  // guard), so that a freeze that hangs ends. The old limits come back with the end of the guard or of this process. If
  // both are killed, the low limits stay until the unmount.
  static absl::StatusOr<std::unique_ptr<ThawGuard>> Start(const std::vector<int>& roots,
                                                          const std::vector<int>& retry_limits,
                                                          std::chrono::milliseconds bound);
  ThawGuard(const ThawGuard&) = delete;
  ThawGuard& operator=(const ThawGuard&) = delete;
  ~ThawGuard();  // ends the guard, which thaws nothing any more; call it after the thaw

  struct RetryLimit {
    int file = -1;  // open for reading and writing
    std::array<char, 16> text = {};
    std::size_t size = 0;  // of `text`, which the file had before; 0: it could not be read
  };

 private:
  ThawGuard(pid_t pid, UniqueFd life, std::vector<RetryLimit> limits)
      : pid_(pid), life_(std::move(life)), limits_(std::move(limits)) {}

  const pid_t pid_;
  const UniqueFd life_;  // closes with this process, which the guard notices
  const std::vector<RetryLimit> limits_;
};

}  // namespace mooring
