// Lets a process outlive the service that started it: systemd kills what is left in the cgroup of a service.
#pragma once

#include <sys/types.h>

namespace mooring {

// Moves the process to the root of cgroup v2, with its later children. 0: the calling process. It stays where it is if
// there is no such cgroup, or this process may not change it, as in most containers. Makes system calls only.
void MoveToRootCgroup(pid_t pid);

}  // namespace mooring
