// Takes away mounts that nobody was told about.
#pragma once

#include <string>

namespace mooring {

// Unmounts a tree of mounts lazily, umount2(2) with MNT_DETACH, and no other tree. `link` leads to its root, and
// nobody can exchange it: "/proc/self/fd/N", or a name that only root can reach. Returns 0, or an
// errno, and then nothing is unmounted. EINVAL: it is not mounted (any more).
int UnmountLazily(const std::string& link);

}  // namespace mooring
