// Mounts that show other owners than their filesystem has, mount_setattr(2), "ID-mapped mounts": for a task in a user
// namespace, whose root is another user outside.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "base/file/unique_fd.h"
#include "mounter/mount/new_mount.h"

namespace mooring {

// Opens a user namespace that has the mapping, as the option X-mount.idmap of mount(8) gives it. Either it is the path
// of a user namespace, "/proc/PID/ns/user". Or it is mappings (mounter/id_mappings.h), for which a namespace is made.
// That needs CAP_SETUID and CAP_SETGID.
//
// INVALID_ARGUMENT: the text is neither. FAILED_PRECONDITION: a capability is missing, or the host allows no user
// namespaces.
absl::StatusOr<UniqueFd> OpenIdMap(const std::string& idmap);

// The complete mount, with these ids. An empty text changes nothing. The result is attached nowhere, because the kernel
// maps the ids of no other mount. With `recursive` all mounts of the copy are mapped. FAILED_PRECONDITION: a filesystem
// in it has no such mounts on this kernel.
absl::StatusOr<NewMount> WithIds(NewMount mount, const std::string& idmap, bool recursive);

}  // namespace mooring
