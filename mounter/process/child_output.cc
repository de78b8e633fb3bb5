#include "mounter/process/child_output.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>

namespace mooring {
namespace {

using Clock = std::chrono::steady_clock;

void AppendToTail(std::string& tail, std::string_view more) {
  constexpr std::size_t kMost = 2048;
  tail += more;
  if (tail.size() > kMost) tail.erase(0, tail.size() - kMost);
}

// Reads what is there, at most four pipes full, so that endless output cannot keep it busy. False: the pipe is closed.
bool ReadSome(const UniqueFd& output, std::string& tail) {
  std::array<char, 65536> chunk = {};
  for (int reads = 0; reads < 4; ++reads) {
    const ssize_t got = ::read(output.get(), chunk.data(), chunk.size());
    if (got == 0) return false;
    if (got < 0) return errno == EAGAIN || errno == EINTR;
    AppendToTail(tail, std::string_view(chunk.data(), static_cast<std::size_t>(got)));
  }
  return true;
}

}  // namespace

bool AwaitEnd(const UniqueFd& pidfd, const UniqueFd& output, Clock::time_point deadline, std::string& tail,
              const UniqueFd& interruption) {
  bool more = true;
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return false;
    std::array waited = {pollfd{pidfd.get(), POLLIN, 0}, pollfd{more ? output.get() : -1, POLLIN, 0},
                         pollfd{interruption.get(), POLLIN, 0}};
    if (::poll(waited.data(), waited.size(), static_cast<int>(std::min<long>(left, 60000))) <= 0) continue;
    if (more) more = ReadSome(output, tail);
    if (waited[0].revents != 0) return true;
    if (waited[2].revents != 0) return false;
  }
}

std::string OneLine(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

}  // namespace mooring
