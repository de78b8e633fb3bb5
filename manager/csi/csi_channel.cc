#include "manager/csi/csi_channel.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <thread>

namespace mooring::manager {
namespace {

// Between half of it and all: several that failed together do not come back together.
Clock::duration Jittered(Clock::duration pause) {
  thread_local std::minstd_rand random{std::random_device{}()};
  const auto half = pause / 2;
  return half + Clock::duration(std::uniform_int_distribution<Clock::rep>(0, half.count())(random));
}

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
  for (int tries = 1;; ++tries) {
    absl::Status status = call(std::min(until, Clock::now() + policy.each));
    if (status.ok() || !IsWorthAnotherTry(status)) return status;
    const Clock::duration wait = Jittered(pause);
    if (Clock::now() + wait >= until) {
      return tries == 1
                 ? status
                 : WithCode(status.code(),
                            absl::Status(status.code(), fmt::format("{} (tried {} times)", Message(status), tries)));
    }
    std::this_thread::sleep_for(wait);
    pause = std::min(2 * pause, policy.longest_pause);
  }
}

}  // namespace mooring::manager
