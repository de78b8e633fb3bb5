#include "manager/csi/csi_channel.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>

namespace mooring::manager {
namespace {

// Between half of it and all: several that failed together do not come back together.
Clock::duration Jittered(Clock::duration pause) {
  thread_local std::minstd_rand random{std::random_device{}()};
  const auto half = pause / 2;
  return half + Clock::duration(std::uniform_int_distribution<Clock::rep>(0, half.count())(random));
}

bool IsStopping(const RetryPolicy& policy) { return policy.stop != nullptr && policy.stop->stopping(); }

void SleepUntil(const RetryPolicy& policy, Clock::time_point until) {
  static const StopToken never;
  (policy.stop == nullptr ? never : *policy.stop).SleepUntil(until);
}

// What tries that all failed come to: what was last answered. That the time ran out in the middle of a later one says
// nothing of what is wrong.
class Tries {
 public:
  void Add(const absl::Status& status) {
    ++count_;
    answered_ = !absl::IsDeadlineExceeded(status);
    if (answered_ || told_.ok() || absl::IsDeadlineExceeded(told_)) told_ = status;
  }

  absl::Status Outcome() const {
    if (count_ == 1) return told_;
    const bool hides = !answered_ && !absl::IsDeadlineExceeded(told_);
    return absl::Status(told_.code(), fmt::format("{} (tried {} times{})", Message(told_), count_,
                                                  hides ? "; no answer in time at last" : ""));
  }

 private:
  absl::Status told_;
  int count_ = 0;
  bool answered_ = false;  // the last one
};

}  // namespace

bool IsWorthAnotherTry(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kAborted:
      return true;
    default:
      return false;
  }
}

absl::Status Retry(const RetryPolicy& policy, Clock::time_point until,
                   const std::function<absl::Status(Clock::time_point)>& call) {
  Clock::duration pause = policy.first_pause;
  Tries tries;
  while (!IsStopping(policy)) {
    const absl::Status status = call(std::min(until, Clock::now() + policy.each));
    if (status.ok() || !IsWorthAnotherTry(status)) return status;
    if (IsStopping(policy)) break;  // which may be why
    tries.Add(status);
    const Clock::time_point next = Clock::now() + Jittered(pause);
    if (next >= until) return tries.Outcome();
    SleepUntil(policy, next);
    pause = std::min(2 * pause, policy.longest_pause);
  }
  return Stopping();
}

std::string_view WithoutTries(std::string_view words) { return words.substr(0, words.rfind(" (tried ")); }

}  // namespace mooring::manager
