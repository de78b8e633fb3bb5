#include "mounter/mount/change_propagation.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mount.h>

#include <cerrno>

#include "base/file/unique_fd.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/path/target.h"
#include "mounter/propagation.h"

namespace mooring {

absl::Status ChangePropagation(const std::string& path, Propagation propagation, bool recursive) {
  if (propagation == Propagation::kInherit) {
    return InvalidArgument("a mount that stands has nothing to inherit: give private, rslave or rshared");
  }
  MOORING_ASSIGN_OR_RETURN(const UniqueFd fd, OpenNoSymlinks(path, O_PATH));
  const std::string link = fmt::format("/proc/self/fd/{}", fd.get());
  const unsigned long flags = MountBitsOf(propagation) | (recursive ? static_cast<unsigned long>(MS_REC) : 0UL);
  // Not mount_setattr(2): before Linux 6.8 it refuses a "/" that has no parent mount.
  if (::mount(nullptr, link.c_str(), nullptr, flags, nullptr) == 0) return absl::OkStatus();
  if (errno == EINVAL) {
    return FailedPrecondition("nothing is mounted at {}, so it has no propagation of its own", Quote(path));
  }
  return ErrnoStatus(errno, fmt::format("make the mount {}", ToString(propagation)), path);
}

}  // namespace mooring
