#include "manager/supervisor/private_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "base/status.h"
#include "base/unique_fd.h"

namespace mooring::manager {

absl::Status WritePrivateFile(const std::string& path, const std::string& contents) {
  const std::string unfinished = path + ".new";
  const UniqueFd file(
      ::open(unfinished.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR));
  if (!file.ok()) return ErrnoStatus(errno, "make", unfinished);
  const ssize_t written = ::write(file.get(), contents.data(), contents.size());
  if (written != static_cast<ssize_t>(contents.size())) return ErrnoStatus(written < 0 ? errno : ENOSPC, "write", path);
  if (std::rename(unfinished.c_str(), path.c_str()) != 0) return ErrnoStatus(errno, "rename to", path);
  return absl::OkStatus();
}

}  // namespace mooring::manager
