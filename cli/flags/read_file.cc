#include "cli/flags/read_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/file/unique_fd.h"
#include "base/status.h"

namespace mooring::cli {
namespace {

constexpr std::size_t kLargestFile = 1024 * 1024;

absl::StatusOr<std::string> ReadAll(int fd) {
  std::string content;
  std::array<char, 4096> buffer;
  for (;;) {
    const ssize_t got = ::read(fd, buffer.data(), buffer.size());
    if (got == 0) return content;
    if (got < 0 && errno != EINTR) return ErrnoStatus(errno, "read");
    if (got > 0) content.append(buffer.data(), static_cast<std::size_t>(got));
    if (content.size() > kLargestFile) return InvalidArgument("the file is larger than 1 MiB");
  }
}

}  // namespace

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  if (path == "-") return ReadAll(STDIN_FILENO);
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.ok()) return ErrnoStatus(errno, "open");
  return ReadAll(fd.get());
}

}  // namespace mooring::cli
