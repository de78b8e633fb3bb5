#include "manager/csi/csi_channel.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <random>

namespace mooring::manager {
namespace {

// Gives between half of the pause and all of it, so that calls that failed together are not repeated together.
Clock::duration Jittered(Clock::duration pause) {
  thread_local std::minstd_rand random{std::random_device{}()};
  const auto half = pause / 2;
  return half + Clock::duration(std::uniform_int_distribution<Clock::rep>(0, half.count())(random));
}

// Collects tries that all failed. The outcome is the last answer of the plugin, because a try that runs out of time
// says nothing about the cause.
class Tries {
 public:
  void Add(const absl::Status& status) {
    ++count_;
    answered_ = !absl::IsDeadlineExceeded(status);
    if (answered_ || outcome_.ok() || absl::IsDeadlineExceeded(outcome_)) outcome_ = status;
  }

  absl::Status Outcome() const {
    if (count_ == 1) return outcome_;
    const bool hides = !answered_ && !absl::IsDeadlineExceeded(outcome_);
    return absl::Status(outcome_.code(), fmt::format("{} (tried {} times{})", Message(outcome_), count_,
                                                     hides ? "; the last try got no answer in time" : ""));
  }

 private:
  absl::Status outcome_;
  int count_ = 0;
  bool answered_ = false;  // in the last try
};

}  // namespace

bool IsRefusal(const absl::Status& status) {
  return absl::IsInvalidArgument(status) || absl::IsNotFound(status) || absl::IsAlreadyExists(status) ||
         absl::IsPermissionDenied(status) || absl::IsUnauthenticated(status) || absl::IsFailedPrecondition(status) ||
         absl::IsOutOfRange(status) || absl::IsUnimplemented(status);
}

void SleepUntil(const std::stop_token& stop, Clock::time_point until) {
  std::mutex mutex;
  std::unique_lock<std::mutex> lock(mutex);
  std::condition_variable_any never;
  never.wait_until(lock, stop, until, [] { return false; });
}

absl::Status CheckAwaited(const IsAbandoned& is_abandoned) {
  if (!is_abandoned || !is_abandoned()) return absl::OkStatus();
  return Aborted("the caller has gone away, so the call is not carried out");
}

absl::Status Stopping() { return absl::CancelledError("the manager is stopping"); }

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
  while (!policy.stop.stop_requested()) {
    absl::Status status = policy.may_call();
    if (status.ok()) status = call(std::min(until, Clock::now() + policy.each));
    if (status.ok() || !IsWorthAnotherTry(status)) return status;
    if (policy.stop.stop_requested()) break;  // the stop may be the cause of the error
    tries.Add(status);
    const Clock::time_point next = Clock::now() + Jittered(pause);
    if (next >= until) return tries.Outcome();
    SleepUntil(policy.stop, next);
    pause = std::min(2 * pause, policy.longest_pause);
  }
  return Stopping();
}

std::string_view WithoutTries(std::string_view message) { return message.substr(0, message.rfind(" (tried ")); }

}  // namespace mooring::manager
