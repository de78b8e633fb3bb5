// Marks the directories and files that were targets of a mount, with an extended attribute, trusted.mooring.target.
// Only CAP_SYS_ADMIN can read or write it. After a reboot the mounts are gone and the targets remain. The mark tells
// the mount helper that it may remove an empty one, whatever the plugin claims. An empty one of root that is not marked
// may be removed, too, if it has the mode of Target::Make: IsMarkedTarget.
#pragma once

#include "base/file/unique_fd.h"
#include "mounter/path/target.h"

namespace mooring {

// Called just before a mount on `place`. A filesystem without extended attributes is not an error.
void MarkTarget(const UniqueFd& place);

// Whether `target`, on which nothing is mounted, is marked. The helper may have been killed between Target::Make and
// the mark. Then the sticky bit of Target::Make is there. The filesystem may have no such attributes, or this process
// may not read them. Then the owner and the mode are compared with those of Target::Make.
bool IsMarkedTarget(const Target& target);

// Whether the directory or file below the lowest mount on `target` is marked. False if the kernel does not say: without
// open_tree(2), below an unbindable mount, or on a filesystem without such attributes.
bool CoversMarkedTarget(const Target& target);

}  // namespace mooring
