// The propagation of an attached mount, mount_namespaces(7).
#ifndef MOORING_MOUNTER_MOUNT_CHANGE_PROPAGATION_H_
#define MOORING_MOUNTER_MOUNT_CHANGE_PROPAGATION_H_

#include <string>

#include "absl/status/status.h"
#include "mounter/mounter.h"

namespace mooring {

// Changes the mount whose root is `path` ("/" too), and with `recursive` all mounts below it. Only mounts made from
// then on propagate by it. kInherit is INVALID_ARGUMENT. FAILED_PRECONDITION: nothing is mounted there.
absl::Status ChangePropagation(const std::string& path, Propagation propagation, bool recursive);

}  // namespace mooring

#endif  // MOORING_MOUNTER_MOUNT_CHANGE_PROPAGATION_H_
