#include "plugin/backends/luks/key_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>

#include "base/file/unique_fd.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "base/text/terminal_text.h"
#include "mounter/encrypted_volumes.h"

namespace mooring {
namespace {

constexpr std::size_t kMostRead = kLongestPassphrase + 2;  // with a newline, and a byte that is too many

struct KeyFile {
  UniqueFd fd;
  struct stat status = {};
};

// The code of the errno would be taken for that of a volume.
absl::Status Unreadable(int error, const std::string& path) {
  return FailedPrecondition("{}: give the pool the path of a file with its passphrase (keyfile=)",
                            Message(ErrnoStatus(error, "read the key file", path)));
}

absl::StatusOr<KeyFile> Open(const std::string& path) {
  KeyFile file;
  file.fd = UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.fd.ok() || ::fstat(file.fd.get(), &file.status) != 0) return Unreadable(errno, path);
  if (S_ISREG(file.status.st_mode)) return file;
  return FailedPrecondition("the key file {} is no regular file: give the pool another one (keyfile=)", Quote(path));
}

absl::StatusOr<std::string> Read(const KeyFile& file, const std::string& path) {
  std::array<char, kMostRead> buffer = {};
  std::size_t size = 0;
  for (;;) {
    const ssize_t got = ::read(file.fd.get(), buffer.data() + size, buffer.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Unreadable(errno, path);
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  std::string text(buffer.data(), size);
  if (text.ends_with('\n')) text.pop_back();
  if (text.empty()) return FailedPrecondition("the key file {} is empty: write the passphrase into it", Quote(path));
  if (text.size() <= kLongestPassphrase) return text;
  return FailedPrecondition("the key file {} has more than {} bytes, and no passphrase has: make a shorter one",
                            Quote(path), kLongestPassphrase);
}

}  // namespace

absl::StatusOr<std::string> ReadKeyFile(const std::string& path) {
  MOORING_ASSIGN_OR_RETURN(const KeyFile file, Open(path));
  return Read(file, path);
}

absl::Status CheckKeyFile(const std::string& path) {
  MOORING_ASSIGN_OR_RETURN(const KeyFile file, Open(path));
  if ((file.status.st_mode & S_IRWXO) != 0) {
    return FailedPrecondition(
        "every user of this host may use the key file {} (mode {:o}), and so could open the volumes: chmod 600 {}",
        Quote(path), file.status.st_mode & 07777, ShellQuote(path));
  }
  return Read(file, path).status();
}

}  // namespace mooring
