#include "base/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>

#include "base/status.h"

namespace mooring {

absl::StatusOr<FileLock> FileLock::Acquire(const std::string& path, Mode mode) {
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.ok()) return ErrnoStatus(errno, "open the lock file", path);
  const int operation = mode == Mode::kShared ? LOCK_SH : LOCK_EX;
  while (::flock(fd.get(), operation) != 0) {
    if (errno != EINTR) return ErrnoStatus(errno, "lock", path);
  }
  return FileLock(std::move(fd));
}

}  // namespace mooring
