// Mounting in the mount namespace of another process, setns(2): what `mooring … --pid` does by hand, to put right what
// propagation did not bring there.
//
// A process that enters another mount namespace does so as a whole, and with one thread only: these are for programs
// that end afterwards, never for a server. Paths in another namespace are its own; no component may be a symbolic link.
#ifndef MOORING_CLI_MOUNTS_OTHER_NAMESPACE_H_
#define MOORING_CLI_MOUNTS_OTHER_NAMESPACE_H_

#include <sys/types.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file/unique_fd.h"
#include "mounter/mounter.h"

namespace mooring {

// NOT_FOUND: no such process. 0: this one.
absl::StatusOr<UniqueFd> OpenMountNamespace(pid_t pid);

// This process and its working directory ("/") are in there from now on.
absl::Status EnterMountNamespace(const UniqueFd& mount_namespace);

// As Mounts::Bind, with the source as `source` has it and the target as `target` has it. The copy keeps its ties: that
// of a shared source is a peer, or with rslave a slave, of it. Ends in `target`.
absl::Status BindAcross(const BindRequest& request, const UniqueFd& source, const UniqueFd& target);

// As Mounts::Unmount, there: without /proc, which in a container may be another's. Ends in `mount_namespace`.
absl::Status UnmountIn(const UniqueFd& mount_namespace, const UnmountRequest& request);

}  // namespace mooring

#endif  // MOORING_CLI_MOUNTS_OTHER_NAMESPACE_H_
