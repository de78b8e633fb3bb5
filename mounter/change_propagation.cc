#include "mounter/change_propagation.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mount.h>

#include <cerrno>

#include "base/quote.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "mounter/propagation.h"
#include "mounter/target.h"

namespace mooring {
namespace {

unsigned long TypeOf(Propagation propagation) {
  switch (propagation) {
    case Propagation::kInherit:
      return 0;
    case Propagation::kPrivate:
      return MS_PRIVATE;
    case Propagation::kSlave:
      return MS_SLAVE;
    case Propagation::kShared:
      return MS_SHARED;
  }
  return 0;
}

// mount(2), which every kernel has: where no flag is set with it, mount_setattr(2) does the same.
int Change(const UniqueFd& fd, unsigned long type, bool recursive) {
  const std::string path = fmt::format("/proc/self/fd/{}", fd.get());
  const unsigned long flags = type | (recursive ? static_cast<unsigned long>(MS_REC) : 0UL);
  return ::mount(nullptr, path.c_str(), nullptr, flags, nullptr) == 0 ? 0 : errno;
}

}  // namespace

absl::Status ChangePropagation(const std::string& path, Propagation propagation, bool recursive) {
  if (propagation == Propagation::kInherit) {
    return InvalidArgument("a mount that stands has nothing to inherit: give private, rslave or rshared");
  }
  MOORING_ASSIGN_OR_RETURN(const UniqueFd fd, OpenNoSymlinks(path, O_PATH));
  const int error = Change(fd, TypeOf(propagation), recursive);
  if (error == 0) return absl::OkStatus();
  if (error == EINVAL) {
    return FailedPrecondition(
        fmt::format("nothing is mounted at {}, so it has no propagation of its own", Quote(path)));
  }
  return ErrnoStatus(error, fmt::format("make the mount {}", ToString(propagation)), path);
}

}  // namespace mooring
