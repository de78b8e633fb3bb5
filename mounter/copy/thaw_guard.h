// Thaws filesystems when the process that froze them dies, or takes too long.
//
// A freeze outlives its process, so a SIGKILL would leave every writer waiting. The guard is another process
// (mounter/process/side_process.h), which starts before the first freeze. It holds the root directories open, and a
// pipe that closes when the first process ends.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "base/file/unique_fd.h"

namespace mooring {

class ThawGuard {
 public:
  // Returns when the guard is ready. After `bound`, the guard thaws the filesystems of `roots`, whatever this process
  // does. Before that it limits how often they repeat a failed write (Superblock::retry_limits), so that a freeze that
  // hangs ends.
  static absl::StatusOr<std::unique_ptr<ThawGuard>> Start(const std::vector<int>& roots,
                                                          const std::vector<int>& retry_limits,
                                                          std::chrono::milliseconds bound);
  ThawGuard(const ThawGuard&) = delete;
  ThawGuard& operator=(const ThawGuard&) = delete;
  ~ThawGuard();  // ends the guard, which thaws nothing any more; call it after the thaw

 private:
  ThawGuard(pid_t pid, UniqueFd life) : pid_(pid), life_(std::move(life)) {}

  const pid_t pid_;
  const UniqueFd life_;  // closes with this process, which the guard notices
};

}  // namespace mooring
