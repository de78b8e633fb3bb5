// A loop device with autoclear outlives its last user by some milliseconds, longer while a process looks at it just
// then.
#pragma once

#include <chrono>
#include <thread>

namespace mooring {

// Calls `ask`, which returns an absl::StatusOr, until it fails, or `is_going` is false for its value, or half a second
// has passed. Returns the last answer.
template <typename Ask, typename IsGoing>
auto AskUntilSettled(const Ask& ask, const IsGoing& is_going) {
  constexpr std::chrono::milliseconds kPoll{5}, kLingers{500};
  for (const auto deadline = std::chrono::steady_clock::now() + kLingers;;) {
    auto answer = ask();
    if (!answer.ok() || !is_going(*answer) || std::chrono::steady_clock::now() >= deadline) return answer;
    std::this_thread::sleep_for(kPoll);
  }
}

}  // namespace mooring
