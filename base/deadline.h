// Until when the work of this thread is of use to somebody. Set where a call comes in, asked where something may hang;
// between them nobody has to hand it down.
#ifndef MOORING_BASE_DEADLINE_H_
#define MOORING_BASE_DEADLINE_H_

#include <chrono>
#include <optional>

namespace mooring {

class DeadlineScope {
 public:
  using Clock = std::chrono::steady_clock;

  explicit DeadlineScope(Clock::time_point deadline);  // until the end of the object; an earlier one around it stays

  // So long from now on, whatever is around it: to take back what was done until the time was over.
  static DeadlineScope Fresh(Clock::duration time);

  DeadlineScope(const DeadlineScope&) = delete;
  DeadlineScope& operator=(const DeadlineScope&) = delete;
  ~DeadlineScope();

  static std::optional<Clock::time_point> Now();  // this thread's; empty: none

 private:
  struct Replacing {};
  DeadlineScope(Clock::time_point deadline, Replacing);

  const std::optional<Clock::time_point> before_;
};

}  // namespace mooring

#endif  // MOORING_BASE_DEADLINE_H_
