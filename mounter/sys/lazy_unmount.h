// umount2(2) with MNT_DETACH, of one tree of mounts and of no other.
//
// An unmount propagates: what is taken off below a mount is taken off below all its peers as well. A copy of a shared
// mount is such a peer of its source until it is told otherwise, so taking the copy away with what is mounted below it
// would take that off the source, too (mount_namespaces(7), "MNT_DETACH"). The copy is therefore made private first.
#ifndef MOORING_MOUNTER_SYS_LAZY_UNMOUNT_H_
#define MOORING_MOUNTER_SYS_LAZY_UNMOUNT_H_

#include <string>

namespace mooring {

// `link` leads to the root of the mount through an open file ("/proc/self/fd/N"): no name that can be swapped. 0, or
// the errno of what failed, and then nothing is unmounted; EINVAL: it is not mounted (any more).
int UnmountLazily(const std::string& link);

}  // namespace mooring

#endif  // MOORING_MOUNTER_SYS_LAZY_UNMOUNT_H_
