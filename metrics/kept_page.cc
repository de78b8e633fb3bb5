#include "metrics/kept_page.h"

#include <time.h>

#include <algorithm>

#include "absl/cleanup/cleanup.h"

namespace mooring::metrics {
namespace {

using Clock = KeptPage::Clock;

Clock::duration ProcessorTime() {
  timespec time = {};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

}  // namespace

bool KeptPage::MayBeToldAgain(Clock::time_point now) const {
  return is_there_ && taken_ > limits_.ahead && now - made_ < limits_.oldest;
}

const std::string& KeptPage::Get() {
  const Clock::time_point now = Clock::now();
  const auto share = std::chrono::duration_cast<Clock::duration>((now - looked_) * limits_.share);
  taken_ = std::max(taken_ - share, Clock::duration::zero());
  looked_ = now;
  if (MayBeToldAgain(now)) return page_;
  const Clock::duration before = ProcessorTime();
  const absl::Cleanup count = [&] { taken_ += ProcessorTime() - before; };
  is_there_ = false;
  page_ = make_();
  is_there_ = true;
  made_ = Clock::now();
  return page_;
}

}  // namespace mooring::metrics
