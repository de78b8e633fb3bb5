// Mounts in the mount namespace of another process, setns(2): for `mooring … --pid`, which repairs what propagation did
// not do.
//
// setns(2) moves the whole process, which must have only one thread. So these functions are for programs that end
// afterwards, not for servers. Paths in another namespace are absolute, and no component is a symbolic link.
#pragma once

#include <sys/types.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file/unique_fd.h"
#include "mounter/mounter.h"

namespace mooring {

// 0 means this process. NOT_FOUND: no such process.
absl::StatusOr<UniqueFd> OpenMountNamespace(pid_t pid);

// Moves this process there; its working directory becomes "/".
absl::Status EnterMountNamespace(const UniqueFd& mount_namespace);

// Like Mounts::Bind, with the source in the namespace `source` and the target in `target`. The copy of a shared mount
// is its peer, or with rslave its slave. This process is in `target` afterwards.
absl::Status BindAcross(const BindRequest& request, const UniqueFd& source, const UniqueFd& target);

// Like Mounts::Unmount in that namespace, but without /proc, which may be missing or foreign in a container. This
// process is in `mount_namespace` afterwards.
absl::Status UnmountIn(const UniqueFd& mount_namespace, const UnmountRequest& request);

}  // namespace mooring
