#include "base/deadline.h"

#include <algorithm>

namespace mooring {
namespace {

thread_local std::optional<DeadlineScope::Clock::time_point> current;

}  // namespace

DeadlineScope::DeadlineScope(Clock::time_point deadline) : before_(current) {
  current = before_ ? std::min(*before_, deadline) : deadline;
}

DeadlineScope::DeadlineScope(Clock::time_point deadline, Replacing) : before_(current) { current = deadline; }

DeadlineScope DeadlineScope::Fresh(Clock::duration time) { return DeadlineScope(Clock::now() + time, Replacing{}); }

DeadlineScope::~DeadlineScope() { current = before_; }

std::optional<DeadlineScope::Clock::time_point> DeadlineScope::Now() { return current; }

}  // namespace mooring
