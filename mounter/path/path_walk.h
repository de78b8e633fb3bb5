// openat2(2) with RESOLVE_NO_SYMLINKS and RESOLVE_NO_MAGICLINKS for where it is not to be had: Linux before 5.6, older
// seccomp profiles.
#ifndef MOORING_MOUNTER_PATH_PATH_WALK_H_
#define MOORING_MOUNTER_PATH_PATH_WALK_H_

#include <string>

#include "base/file/unique_fd.h"

namespace mooring {

// Component by component, each opened in the directory that was opened before it, so that nothing renamed or swapped in
// meanwhile leads elsewhere. `path` is absolute, or relative to `directory`; a symbolic link anywhere in it, a magic
// link among them, is ELOOP, a ".." EINVAL. On failure errno says what openat2(2) would have said.
UniqueFd WalkNoSymlinks(int directory, const std::string& path, int flags);

}  // namespace mooring

#endif  // MOORING_MOUNTER_PATH_PATH_WALK_H_
