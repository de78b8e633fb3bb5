#include "mounter/path/lazy_unmount.h"

#include <sys/mount.h>

#include <cerrno>

namespace mooring {

int UnmountLazily(const std::string& link) {
  // A mount that disappears below one mount disappears below all its peers (mount_namespaces(7), "MNT_DETACH"). A copy
  // of a shared mount is a peer of its source. So the tree is made private first. Unbindable is private, and a
  // recursive bind at this moment does not copy it.
  constexpr unsigned long kAlone = MS_REC | MS_UNBINDABLE;
  if (::mount(nullptr, link.c_str(), nullptr, kAlone, nullptr) != 0) return errno;
  return ::umount2(link.c_str(), MNT_DETACH) == 0 ? 0 : errno;
}

}  // namespace mooring
