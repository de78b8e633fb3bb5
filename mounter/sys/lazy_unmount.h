// Unmounts a tree of mounts lazily, umount2(2) with MNT_DETACH, and no other tree.
//
// An unmount propagates: a mount that disappears below one mount disappears below all its peers. A copy of a shared
// mount is a peer of its source. Unmounting the copy with everything below it would thus unmount the same below the
// source (mount_namespaces(7), "MNT_DETACH"). So the tree is made private first.
#ifndef MOORING_MOUNTER_SYS_LAZY_UNMOUNT_H_
#define MOORING_MOUNTER_SYS_LAZY_UNMOUNT_H_

#include <string>

namespace mooring {

// `link` leads to the root of the mount through an open file ("/proc/self/fd/N"), so that nobody can exchange it.
// Returns 0, or an errno, and then nothing is unmounted. EINVAL: it is not mounted (any more).
int UnmountLazily(const std::string& link);

}  // namespace mooring

#endif  // MOORING_MOUNTER_SYS_LAZY_UNMOUNT_H_
