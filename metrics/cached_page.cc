#include "metrics/cached_page.h"

#include <time.h>

#include <algorithm>

#include "absl/cleanup/cleanup.h"

namespace mooring::metrics {
namespace {

using Clock = CachedPage::Clock;

Clock::duration ProcessorTime() {
  timespec time = {};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

}  // namespace

bool CachedPage::MayReturnAgain(Clock::time_point now) const {
  return has_page_ && taken_ > limits_.ahead && now - made_ < limits_.oldest;
}

const std::string& CachedPage::Get() {
  const Clock::time_point now = Clock::now();
  const auto share = std::chrono::duration_cast<Clock::duration>((now - asked_) * limits_.share);
  taken_ = std::max(taken_ - share, Clock::duration::zero());
  asked_ = now;
  if (MayReturnAgain(now)) return page_;
  const Clock::duration before = ProcessorTime();
  const absl::Cleanup count = [&] { taken_ += ProcessorTime() - before; };
  has_page_ = false;
  page_ = make_();
  has_page_ = true;
  made_ = Clock::now();
  return page_;
}

}  // namespace mooring::metrics
