#include "mounter/mount/change_propagation.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mount.h>

#include <cerrno>

#include "base/file/unique_fd.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/mount/libmount_call.h"
#include "mounter/path/target.h"
#include "mounter/propagation.h"

namespace mooring {
namespace {

// Before Linux 6.8, mount_setattr(2) of libmount 2.41 refuses a "/" that has no parent mount. mount(2) does not.
int SetPropagation(const UniqueFd& mount, Propagation propagation, bool recursive) {
  const std::string link = fmt::format("/proc/self/fd/{}", mount.get());
  const int error = RunLibmount({.target = link, .words = PropagationWord(propagation, recursive)});
  if (error != EINVAL) return error;
  const unsigned long flags = MountBitsOf(propagation) | (recursive ? static_cast<unsigned long>(MS_REC) : 0UL);
  return ::mount(nullptr, link.c_str(), nullptr, flags, nullptr) == 0 ? 0 : errno;
}

}  // namespace

absl::Status SetMountPropagation(const UniqueFd& mount, Propagation propagation, bool recursive) {
  const int error = SetPropagation(mount, propagation, recursive);
  if (error == 0) return absl::OkStatus();
  return ErrnoStatus(error, fmt::format("set the propagation {}", ToString(propagation)));
}

absl::Status ChangePropagation(const std::string& path, Propagation propagation, bool recursive) {
  if (propagation == Propagation::kInherit) {
    return InvalidArgument("a mount that stands has nothing to inherit: give private, rslave or rshared");
  }
  MOORING_ASSIGN_OR_RETURN(const UniqueFd fd, OpenNoSymlinks(path, O_PATH));
  const int error = SetPropagation(fd, propagation, recursive);
  if (error == 0) return absl::OkStatus();
  if (error == EINVAL) {
    return FailedPrecondition("nothing is mounted at {}, so it has no propagation of its own", Quote(path));
  }
  return ErrnoStatus(error, fmt::format("make the mount {}", ToString(propagation)), path);
}

}  // namespace mooring
