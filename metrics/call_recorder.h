// Who counts calls. Between what serves them and what counts them: null where nobody counts.
#ifndef MOORING_METRICS_CALL_RECORDER_H_
#define MOORING_METRICS_CALL_RECORDER_H_

#include <chrono>
#include <optional>
#include <string_view>

#include "absl/status/status.h"

namespace mooring {

// From many threads. `method` is one of a fixed few ("NodeStageVolume"), never a caller's own words.
class CallRecorder {
 public:
  virtual ~CallRecorder() = default;

  virtual void Begin(std::string_view method) = 0;

  // Once for each Begin. No time: it went on for as long as its caller listened.
  virtual void End(std::string_view method, absl::StatusCode code,
                   std::optional<std::chrono::steady_clock::duration> took) = 0;
};

}  // namespace mooring

#endif  // MOORING_METRICS_CALL_RECORDER_H_
