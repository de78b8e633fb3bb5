#include "mounter/sys/lazy_unmount.h"

#include <sys/mount.h>

#include <cerrno>

namespace mooring {

int UnmountLazily(const std::string& link) {
  // Unbindable: private, and a recursive bind at this moment does not copy it.
  constexpr unsigned long kAlone = MS_REC | MS_UNBINDABLE;
  if (::mount(nullptr, link.c_str(), nullptr, kAlone, nullptr) != 0) return errno;
  return ::umount2(link.c_str(), MNT_DETACH) == 0 ? 0 : errno;
}

}  // namespace mooring
