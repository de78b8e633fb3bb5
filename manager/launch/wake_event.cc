#include "manager/launch/wake_event.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <chrono>

namespace mooring::manager {

WakeEvent::WakeEvent() : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void WakeEvent::Wake() { ::eventfd_write(event_.get(), 1); }

void WakeEvent::Wait(Clock::time_point until, const std::vector<int>& descriptors) {
  // A minute at most, so that the milliseconds of poll(2) cannot overflow; callers check their condition again.
  const auto longest = std::chrono::minutes(1);
  const Clock::duration left = std::clamp<Clock::duration>(until - Clock::now(), Clock::duration::zero(), longest);
  std::vector<pollfd> waited = {{event_.get(), POLLIN, 0}};
  for (const int descriptor : descriptors) waited.push_back({descriptor, POLLIN, 0});
  ::poll(waited.data(), waited.size(), static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(left).count()));
  eventfd_t ignored = 0;
  ::eventfd_read(event_.get(), &ignored);
}

}  // namespace mooring::manager
