// The time limit of a call, passed from the RPC to the places that wait.
#pragma once

#include <chrono>

namespace mooring {

struct Call {
  // The end of waiting for other calls: the caller's deadline minus the time to answer, at most kLongestWait from now.
  std::chrono::steady_clock::time_point wait_until;

  static constexpr std::chrono::seconds kLongestWait{60};
  static Call WithLongestWait() { return {std::chrono::steady_clock::now() + kLongestWait}; }
};

}  // namespace mooring
