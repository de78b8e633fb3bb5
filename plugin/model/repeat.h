// Waiting for what somebody else is still at, and taking back what was cut short.
#ifndef MOORING_PLUGIN_MODEL_REPEAT_H_
#define MOORING_PLUGIN_MODEL_REPEAT_H_

#include <chrono>
#include <thread>

#include "absl/status/status.h"
#include "plugin/model/call.h"

namespace mooring {

// Whether a copy that ended so may have left its sources frozen. A mount helper that answered has thawed them: what is
// frozen then is somebody else's.
inline bool MayHaveLeftFrozen(const absl::Status& copy) {
  return absl::IsUnavailable(copy) || absl::IsDeadlineExceeded(copy);
}

// For taking back what a call could not finish: its own time may be what was over.
inline constexpr std::chrono::seconds kRollback{10};

// For what a killed plugin left: its mount helper is gone by then.
inline constexpr std::chrono::seconds kHelperEnds{10};

// Until `action` is not ABORTED any more, or the call has waited as long as it may.
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

#endif  // MOORING_PLUGIN_MODEL_REPEAT_H_
