// The interface between the code that serves calls and the code that counts them.
#pragma once

#include <chrono>
#include <optional>
#include <string_view>

#include "absl/status/status.h"

namespace mooring {

// Used by many threads. `method` is a name of the interface ("NodeStageVolume"), never text of a caller.
class CallRecorder {
 public:
  virtual ~CallRecorder() = default;

  virtual void Begin(std::string_view method) = 0;

  // Once for each Begin. `took` is empty for a stream that ends with its caller.
  virtual void End(std::string_view method, absl::StatusCode code,
                   std::optional<std::chrono::steady_clock::duration> took) = 0;
};

}  // namespace mooring
