// The deadline of a thread's work. WorkDeadline (rpc/served_call.h) derives it from gRPC's deadline.
//
// DeadlineScope limits work that may hang in the kernel: the calls of the mount helper, below interfaces that have no
// parameter for it. Functions that wait for other calls take `until` or a Call (plugin/model/call.h), because
// background work may take time, but must not wait for other calls.
#pragma once

#include <chrono>
#include <optional>

namespace mooring {

class DeadlineScope {
 public:
  using Clock = std::chrono::steady_clock;

  // Lasts as long as the object. An earlier deadline of an enclosing scope stays in force.
  explicit DeadlineScope(Clock::time_point deadline);

  // A deadline `time` from now that replaces the one of the enclosing scope: for a roll-back after the time is over.
  static DeadlineScope Fresh(Clock::duration time);

  DeadlineScope(const DeadlineScope&) = delete;
  DeadlineScope& operator=(const DeadlineScope&) = delete;
  ~DeadlineScope();

  static std::optional<Clock::time_point> Now();  // the deadline of this thread, if it has one
  static bool HasPassed() { return Now().value_or(Clock::time_point::max()) <= Clock::now(); }

 private:
  struct Replacing {};
  DeadlineScope(Clock::time_point deadline, Replacing);

  const std::optional<Clock::time_point> before_;
};

}  // namespace mooring
