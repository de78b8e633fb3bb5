#include "base/file/await_input.h"

#include <poll.h>

#include <algorithm>

namespace mooring {

bool AwaitInput(const UniqueFd& fd, std::chrono::steady_clock::time_point deadline) {
  constexpr long kLongestPoll = 60L * 60 * 1000;
  pollfd waited = {fd.get(), POLLIN, 0};
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
    const int events = ::poll(&waited, 1, static_cast<int>(std::clamp<long>(left, 0, kLongestPoll)));
    if (events > 0) return true;
    if (left <= 0) return false;
  }
}

bool HasInput(const UniqueFd& fd) { return AwaitInput(fd, std::chrono::steady_clock::now()); }

}  // namespace mooring
