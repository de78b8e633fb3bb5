#include "mounter/superblock/raw_super.h"

#include <unistd.h>
#include <uuid/uuid.h>

#include <cerrno>

#include "base/status.h"
#include "base/text/quote.h"

namespace mooring {

absl::StatusOr<std::string> ReadSuper(int fd, const std::string& path, const SuperLayout& layout, std::uint64_t place) {
  std::string super(layout.bytes, '\0');
  const ssize_t got = ::pread(fd, super.data(), super.size(), static_cast<off_t>(place));
  if (got < 0) return ErrnoStatus(errno, "read the superblock of", path);
  const bool whole = static_cast<std::size_t>(got) == super.size();
  if (whole && super.compare(layout.magic_at, layout.magic.size(), layout.magic) == 0) return super;
  return FailedPrecondition("{} has no superblock of {} at byte {}", Quote(path), layout.filesystem, place);
}

absl::Status WriteSuper(int fd, const std::string& path, std::uint64_t place, const std::string& super) {
  const ssize_t put = ::pwrite(fd, super.data(), super.size(), static_cast<off_t>(place));
  if (put == static_cast<ssize_t>(super.size())) return absl::OkStatus();
  return ErrnoStatus(put < 0 ? errno : ENOSPC, "write the superblock of", path);
}

std::string RandomUuid() {
  uuid_t uuid;
  uuid_generate_random(uuid);
  return std::string(reinterpret_cast<const char*>(uuid), sizeof(uuid));
}

}  // namespace mooring
