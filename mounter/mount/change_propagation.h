// The propagation of a mount that stands, mount_namespaces(7).
#ifndef MOORING_MOUNTER_MOUNT_CHANGE_PROPAGATION_H_
#define MOORING_MOUNTER_MOUNT_CHANGE_PROPAGATION_H_

#include <string>

#include "absl/status/status.h"
#include "base/file/unique_fd.h"
#include "mounter/mounter.h"

namespace mooring {

// Of the mount whose root is open, O_PATH will do. 0, or the errno of mount(2). Not kInherit.
int TrySetPropagation(const UniqueFd& mount, Propagation propagation, bool recursive);

// Of the mount whose root is `path` ("/" too), with `recursive` of all mounts below it as well. kInherit is
// INVALID_ARGUMENT; FAILED_PRECONDITION: nothing is mounted there. Only mounts made from then on propagate by it.
absl::Status ChangePropagation(const std::string& path, Propagation propagation, bool recursive);

}  // namespace mooring

#endif  // MOORING_MOUNTER_MOUNT_CHANGE_PROPAGATION_H_
