#include "base/file/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <thread>

#include "base/status.h"
#include "base/text/quote.h"

namespace mooring {

namespace {

// `try_lock` returns 0, or -1 with errno, as the system calls do.
template <typename TryLock>
absl::Status LockInTime(const TryLock& try_lock, const std::string& path, std::chrono::milliseconds patience) {
  constexpr std::chrono::milliseconds kPoll{2};
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (try_lock() != 0) {
    if (errno != EAGAIN && errno != EACCES && errno != EINTR) return ErrnoStatus(errno, "lock", path);
    if (std::chrono::steady_clock::now() >= deadline) {
      return Aborted("{} is being used by another process right now: call again later", Quote(path));
    }
    std::this_thread::sleep_for(kPoll);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status LockFile(const UniqueFd& file, const std::string& path, std::chrono::milliseconds patience) {
  return LockInTime([&] { return ::flock(file.get(), LOCK_EX | LOCK_NB); }, path, patience);
}

absl::Status LockByte(const UniqueFd& file, off_t byte, const std::string& path, std::chrono::milliseconds patience) {
  struct flock range = {};
  range.l_type = (::fcntl(file.get(), F_GETFL) & O_ACCMODE) == O_RDONLY ? F_RDLCK : F_WRLCK;
  range.l_whence = SEEK_SET;
  range.l_start = byte;
  range.l_len = 1;
  return LockInTime([&] { return ::fcntl(file.get(), F_OFD_SETLK, &range); }, path, patience);
}

}  // namespace mooring
