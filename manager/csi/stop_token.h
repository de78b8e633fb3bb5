// The manager's stop, for everything that waits: it wakes, and gives CANCELLED, which within the manager means nothing
// else. What is cut short so has not failed: nothing is written down about it and nothing is taken back, as if the
// manager had been killed. Its records say what the next start has to do.
#ifndef MOORING_MANAGER_CSI_STOP_TOKEN_H_
#define MOORING_MANAGER_CSI_STOP_TOKEN_H_

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "absl/status/status.h"

namespace mooring::manager {

absl::Status Stopping();  // CANCELLED

class StopToken {
 public:
  void Stop();
  bool stopping() const;

  bool SleepUntil(std::chrono::steady_clock::time_point until) const;  // false: the manager is stopping

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool stopping_ = false;
};

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_CSI_STOP_TOKEN_H_
