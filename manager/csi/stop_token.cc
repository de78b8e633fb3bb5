#include "manager/csi/stop_token.h"

namespace mooring::manager {

absl::Status Stopping() { return absl::CancelledError("the manager is stopping"); }

void StopToken::Stop() {
  const std::lock_guard<std::mutex> lock(mutex_);
  stopping_ = true;
  changed_.notify_all();
}

bool StopToken::stopping() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return stopping_;
}

bool StopToken::SleepUntil(std::chrono::steady_clock::time_point until) const {
  std::unique_lock<std::mutex> lock(mutex_);
  return !changed_.wait_until(lock, until, [this] { return stopping_; });
}

}  // namespace mooring::manager
