// Waiting for what somebody else is still at.
#ifndef MOORING_PLUGIN_REPEAT_H_
#define MOORING_PLUGIN_REPEAT_H_

#include <chrono>
#include <thread>

#include "absl/status/status.h"
#include "plugin/call.h"

namespace mooring {

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

#endif  // MOORING_PLUGIN_REPEAT_H_
