// Mounts that show other owners than their filesystem has, mount_setattr(2), "ID-mapped mounts": for a task in a user
// namespace, whose root is another user outside.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "base/file/unique_fd.h"
#include "mounter/mount/new_mount.h"

namespace mooring {

// Opens a user namespace that has the mapping, as the option X-mount.idmap of mount(8) gives it. Either it is the path
// of a user namespace, "/proc/PID/ns/user". Or it is mappings with spaces between them, "[TYPE:]DISK:MOUNT:COUNT": the
// ids from DISK on of the filesystem are those from MOUNT on in the mount. TYPE is u for users, g for groups, or b for
// both, the default. An id without a mapping is the overflow id, and nothing can be made under it.
//
// INVALID_ARGUMENT: the text is something else, or the kernel refuses such mappings. Do not call it from several
// threads.
absl::StatusOr<UniqueFd> OpenIdMap(const std::string& idmap);

// The complete mount, with these ids. An empty text changes nothing. The result is attached nowhere, because the kernel
// maps the ids of no other mount. With `recursive` all mounts of the copy are mapped. FAILED_PRECONDITION: a filesystem
// in it has no such mounts on this kernel.
absl::StatusOr<NewMount> WithIds(NewMount mount, const std::string& idmap, bool recursive);

}  // namespace mooring
