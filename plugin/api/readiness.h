// Whether the plugin has put its records and the kernel together and may act. Set by the reconciler, waited for by
// calls, which Stop wakes.
#ifndef MOORING_PLUGIN_API_READINESS_H_
#define MOORING_PLUGIN_API_READINESS_H_

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "absl/status/status.h"
#include "base/status.h"

namespace mooring {

// What a call hears that came too late.
inline absl::Status Stopping() { return Unavailable("the plugin is stopping: call again when it is back"); }

class Readiness {
 public:
  void Set(absl::Status outcome) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!stopping_) outcome_ = std::move(outcome);
    changed_.notify_all();
  }

  // The end: it is UNAVAILABLE from now on, and nobody waits for more.
  void Stop() {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
    outcome_ = Stopping();
    changed_.notify_all();
  }

  // UNAVAILABLE while starting and when stopping; between them what Set was given.
  absl::Status Now() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return outcome_;
  }

  // As Now, after waiting for Set until `deadline`.
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

#endif  // MOORING_PLUGIN_API_READINESS_H_
