#include "mounter/uuid.h"

#include <sys/random.h>

#include <cerrno>

#include "base/status.h"

namespace mooring {

absl::StatusOr<std::string> RandomUuid() {
  std::string uuid(kUuidBytes, '\0');
  if (::getrandom(uuid.data(), uuid.size(), 0) != static_cast<ssize_t>(uuid.size())) {
    return ErrnoStatus(errno, "get random bytes");
  }
  uuid[6] = static_cast<char>((uuid[6] & 0x0F) | 0x40);
  uuid[8] = static_cast<char>((uuid[8] & 0x3F) | 0x80);
  return uuid;
}

}  // namespace mooring
