// Remembers in the filesystem which directories and files were targets of a mount: an extended attribute,
// trusted.mooring.target, which only CAP_SYS_ADMIN can read or write. After a reboot the mounts are gone and the
// targets are still there. The mark tells the mount helper that it may remove an empty one, whatever the plugin says.
#ifndef MOORING_MOUNTER_PATH_TARGET_MARK_H_
#define MOORING_MOUNTER_PATH_TARGET_MARK_H_

#include "base/file/unique_fd.h"
#include "mounter/path/target.h"

namespace mooring {

// `place` is about to be mounted on. A filesystem without such attributes is no error.
void MarkTarget(const UniqueFd& place);

// Whether `target`, on which nothing is mounted, carries the mark. Where the filesystem holds no such attribute, or
// this process may not read it: whether owner and mode are those with which Target::Make makes targets.
bool IsMarkedTarget(const Target& target);

// Whether `target`, on which something is mounted, carries the mark below the lowest mount. False where the kernel does
// not say: without open_tree(2), below an unbindable mount, or on a filesystem without such attributes.
bool CoversMarkedTarget(const Target& target);

}  // namespace mooring

#endif  // MOORING_MOUNTER_PATH_TARGET_MARK_H_
