#include "manager/launch/end_deadline.h"

#include <utility>

namespace mooring::manager {

EndDeadline::EndDeadline(Clock::time_point until) : until_(until) {}

void EndDeadline::Lower(Clock::time_point until) {
  std::stop_source before(std::nostopstate);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (until >= until_ || IsGivenUp()) return;
    until_ = until;
    before = std::exchange(changed_, std::stop_source());
  }
  before.request_stop();  // calls who waits
}

void EndDeadline::GiveUp() {
  given_up_.request_stop();
  std::stop_source last(std::nostopstate);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    last = changed_;
  }
  last.request_stop();
}

Clock::time_point EndDeadline::until() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return until_;
}

std::stop_token EndDeadline::changed() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return changed_.get_token();
}

}  // namespace mooring::manager
