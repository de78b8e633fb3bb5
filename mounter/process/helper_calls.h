// The system calls of the mount helper and of the programs that it runs, seccomp(2). A hole in e2fsck or in a parser of
// ours, reached by a crafted image, then leads to the calls listed here and to no others.
//
//   spawner, helper   an allow-list; every other call is ENOSYS
//   mkfs, e2fsck, …   the same list, less the mounts, the device nodes and the sockets, which are EPERM
#ifndef MOORING_MOUNTER_PROCESS_HELPER_CALLS_H_
#define MOORING_MOUNTER_PROCESS_HELPER_CALLS_H_

#include "absl/status/status.h"

namespace mooring {

// For good, for the calling thread and all that it starts. Needs no_new_privs or CAP_SYS_ADMIN.
absl::Status ConfineHelperCalls();

// The same for a thread that is about to start a program. Also sets no_new_privs in this thread.
absl::Status ConfineProgramCalls();

}  // namespace mooring

#endif  // MOORING_MOUNTER_PROCESS_HELPER_CALLS_H_
