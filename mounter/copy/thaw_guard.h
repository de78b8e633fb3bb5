// Thaws filesystems when the process that froze them dies, or takes too long.
//
// A freeze outlives the process that asked for it, so a SIGKILL would leave every writer waiting. The guard is a
// process of its own (mounter/process/side_process.h) that is there before the first freeze. It holds the root
// directories and a pipe whose end tells it that the other process has ended.
#ifndef MOORING_MOUNTER_COPY_THAW_GUARD_H_
#define MOORING_MOUNTER_COPY_THAW_GUARD_H_

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "base/file/unique_fd.h"

namespace mooring {

class ThawGuard {
 public:
  // Returns when the guard is ready. From then on the filesystems of `roots` have `bound` to be frozen and thawed; then
  // the guard thaws them, whatever this process does.
  static absl::StatusOr<std::unique_ptr<ThawGuard>> Start(const std::vector<int>& roots,
                                                          std::chrono::milliseconds bound);
  ThawGuard(const ThawGuard&) = delete;
  ThawGuard& operator=(const ThawGuard&) = delete;
  ~ThawGuard();  // after the thaw: ends the guard, which thaws nothing any more

 private:
  ThawGuard(pid_t pid, UniqueFd life) : pid_(pid), life_(std::move(life)) {}

  const pid_t pid_;
  const UniqueFd life_;  // the guard sees its end with that of this process
};

}  // namespace mooring

#endif  // MOORING_MOUNTER_COPY_THAW_GUARD_H_
