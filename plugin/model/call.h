// One call under way: how long it may take. Handed down from the RPC to where something waits.
#ifndef MOORING_PLUGIN_MODEL_CALL_H_
#define MOORING_PLUGIN_MODEL_CALL_H_

#include <chrono>

namespace mooring {

struct Call {
  // When waiting for other calls ends: the caller's own deadline less the time to answer, at most kLongestWait from
  // now.
  std::chrono::steady_clock::time_point wait_until;

  static constexpr std::chrono::seconds kLongestWait{60};
  static Call WithLongestWait() { return {std::chrono::steady_clock::now() + kLongestWait}; }
};

}  // namespace mooring

#endif  // MOORING_PLUGIN_MODEL_CALL_H_
