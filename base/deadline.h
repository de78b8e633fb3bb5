// The deadline of a thread's work. There are three kinds of deadlines in the code.
//   - `Clock::time_point until` (manager, metrics) is a parameter of functions that wait or call another server.
//   - `const Call&` (plugin/model/call.h) is the same parameter for the work of one RPC of the plugin.
//   - DeadlineScope is for work that may hang in the kernel, below interfaces without such a parameter. These are the
//     calls of the mount helper. The RPC handler sets it, and the code that may hang reads it.
// A function that waits takes the parameter. DeadlineScope is only for the third case.
#ifndef MOORING_BASE_DEADLINE_H_
#define MOORING_BASE_DEADLINE_H_

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

 private:
  struct Replacing {};
  DeadlineScope(Clock::time_point deadline, Replacing);

  const std::optional<Clock::time_point> before_;
};

}  // namespace mooring

#endif  // MOORING_BASE_DEADLINE_H_
