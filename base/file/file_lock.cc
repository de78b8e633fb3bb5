#include "base/file/file_lock.h"

#include <sys/file.h>

#include <cerrno>
#include <thread>

#include "base/status.h"
#include "base/text/quote.h"

namespace mooring {

absl::Status LockFile(const UniqueFd& file, const std::string& path, std::chrono::milliseconds patience) {
  constexpr std::chrono::milliseconds kPoll{2};
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return ErrnoStatus(errno, "lock", path);
    if (std::chrono::steady_clock::now() >= deadline) {
      return Aborted("{} is being used by another process right now: call again later", Quote(path));
    }
    std::this_thread::sleep_for(kPoll);
  }
  return absl::OkStatus();
}

}  // namespace mooring
