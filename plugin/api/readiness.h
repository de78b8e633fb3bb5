// Whether the plugin has reconciled its records with the kernel and serves calls. The reconciler sets it, calls wait
// for it, and Stop wakes them.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "absl/status/status.h"
#include "base/status.h"

namespace mooring {

// The answer to calls after Stop.
inline absl::Status Stopping() { return Unavailable("the plugin is stopping: call again when it is back"); }

class Readiness {
 public:
  void Set(absl::Status outcome) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!stopping_) outcome_ = std::move(outcome);
    changed_.notify_all();
  }

  // From now on the state is UNAVAILABLE, and no call waits.
  void Stop() {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
    outcome_ = Stopping();
    changed_.notify_all();
  }

  // UNAVAILABLE during the start and after Stop, else the last status of Set.
  absl::Status Now() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return outcome_;
  }

  // Waits for Set until `deadline`, then returns Now().
  absl::Status Wait(std::chrono::steady_clock::time_point deadline) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait_until(lock, deadline, [this] { return stopping_ || !absl::IsUnavailable(outcome_); });
    return outcome_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  absl::Status outcome_ = Unavailable("starting: the records and the mounts of this host are being reconciled");
};

}  // namespace mooring
