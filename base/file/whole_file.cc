#include "base/file/whole_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/file/unique_fd.h"
#include "base/status.h"

namespace mooring {

absl::StatusOr<std::string> ReadWholeFile(const std::string& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.ok()) return ErrnoStatus(errno, "open", path);
  std::string contents;
  std::array<char, 4096> buffer;
  for (;;) {
    const ssize_t got = ::read(file.get(), buffer.data(), buffer.size());
    if (got == 0) return contents;
    if (got < 0 && errno != EINTR) return ErrnoStatus(errno, "read", path);
    if (got > 0) contents.append(buffer.data(), static_cast<std::size_t>(got));
  }
}

std::string FirstLine(const std::string& path) {
  const std::string contents = ReadWholeFile(path).value_or("");
  return contents.substr(0, contents.find('\n'));
}

}  // namespace mooring
