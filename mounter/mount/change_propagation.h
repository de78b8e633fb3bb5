// The propagation of an attached mount, mount_namespaces(7), which libmount changes.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "base/file/unique_fd.h"
#include "mounter/mounter.h"

namespace mooring {

// Changes the mount whose root is `path` ("/" too), and with `recursive` all mounts below it. Only mounts made from
// then on propagate by it. kInherit is INVALID_ARGUMENT. FAILED_PRECONDITION: nothing is mounted there.
absl::Status ChangePropagation(const std::string& path, Propagation propagation, bool recursive);

// The same for an open mount: its root, which may be O_PATH. Not kInherit.
absl::Status SetMountPropagation(const UniqueFd& mount, Propagation propagation, bool recursive);

}  // namespace mooring
