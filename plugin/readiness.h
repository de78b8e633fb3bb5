// Whether the plugin has put its records and the kernel together and may act. Set once by the reconciler, waited for by
// calls.
#ifndef MOORING_PLUGIN_READINESS_H_
#define MOORING_PLUGIN_READINESS_H_

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "absl/status/status.h"
#include "base/status.h"

namespace mooring {

class Readiness {
 public:
  void Set(absl::Status outcome) {
    const std::lock_guard<std::mutex> lock(mutex_);
    outcome_ = std::move(outcome);
    changed_.notify_all();
  }

  // UNAVAILABLE while starting; later what Set was given.
  absl::Status Now() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return outcome_;
  }

  // As Now, after waiting for Set until `deadline`.
  absl::Status Wait(std::chrono::steady_clock::time_point deadline) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait_until(lock, deadline, [this] { return !absl::IsUnavailable(outcome_); });
    return outcome_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  absl::Status outcome_ = Unavailable("starting: the records and the mounts of this host are being reconciled");
};

}  // namespace mooring

#endif  // MOORING_PLUGIN_READINESS_H_
