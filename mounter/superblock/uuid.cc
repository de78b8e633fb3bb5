#include "mounter/superblock/uuid.h"

#include <fmt/format.h>
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

std::string UuidText(std::string_view uuid) {
  if (uuid.find_first_not_of('\0') == std::string_view::npos) return "";
  std::string text;
  for (std::size_t i = 0; i < uuid.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned char>(uuid[i]));
  }
  return text;
}

}  // namespace mooring
