// The time limit of a call, passed from the RPC to the places that wait, and waits for work of other processes.
#pragma once

#include <chrono>
#include <thread>

#include "absl/status/status.h"

namespace mooring {

struct Call {
  // The end of waiting for other calls: the caller's deadline minus the time to answer, at most kLongestWait from now.
  std::chrono::steady_clock::time_point wait_until;

  static constexpr std::chrono::seconds kLongestWait{60};
  static Call WithLongestWait() { return {std::chrono::steady_clock::now() + kLongestWait}; }
};

// Whether the same call may succeed later although nobody changes anything.
inline bool MaySucceedLater(const absl::Status& status) {
  return absl::IsAborted(status) || absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) ||
         absl::IsCancelled(status);
}

// Whether a copy that ended with this status may have left its sources frozen. A mount helper that answered has thawed
// them, so another process froze what is frozen then.
inline bool MayHaveLeftFrozen(const absl::Status& copy) {
  return absl::IsUnavailable(copy) || absl::IsDeadlineExceeded(copy);
}

// The time for rolling back a failed call. It is not the call's own time, which may be over.
inline constexpr std::chrono::seconds kRollback{10};

// The mount helper of a killed plugin ends within this time.
inline constexpr std::chrono::seconds kHelperEnds{10};

// Repeats `action` while it is ABORTED, until Call::wait_until.
template <typename Action>
absl::Status RepeatWhileAborted(const Call& call, Action action) {
  constexpr std::chrono::milliseconds kPause{20};
  for (;;) {
    absl::Status status = action();
    if (!absl::IsAborted(status) || std::chrono::steady_clock::now() >= call.wait_until) return status;
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace mooring
