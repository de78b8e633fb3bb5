// A small process beside the mount helper, which does one thing and outlives it: it thaws what the helper left frozen
// (mounter/copy/thaw_guard.h), or holds a device open (mounter/loop/device_holder.h).
#ifndef MOORING_MOUNTER_PROCESS_SIDE_PROCESS_H_
#define MOORING_MOUNTER_PROCESS_SIDE_PROCESS_H_

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace mooring {

struct SideProcessSpec {
  std::string name;              // in ps; 15 bytes at most
  std::vector<int> kept;         // the descriptors that it keeps; all others are closed
  bool keeps_sys_admin = false;  // of the capabilities, this one alone or none
  bool ends_on_sigterm = false;  // as at a shutdown, which waits for those that do not
};

// Forks, and runs `work` in the child, whose result is its exit status. The child has a session of its own, blocks all
// signals that can be blocked (but SIGTERM, where `spec` says so), and is spared by the OOM killer. Returns when it has
// its name and its descriptors. Where cgroup v2 is writable it moves to the root cgroup, so that it does not end with
// the service that started it. `work` may only make system calls: other threads of this process may have held locks
// when it was forked.
absl::StatusOr<pid_t> StartSideProcess(const SideProcessSpec& spec, const std::function<int()>& work);

// Kills a child or another process of ours, and waits until its descriptors are closed. False: it has not ended yet.
// `is_meant` is asked once the process is held, so that its number cannot become another's: false, and it is spared.
bool EndSideProcess(pid_t pid, const std::function<bool()>& is_meant = {});

}  // namespace mooring

#endif  // MOORING_MOUNTER_PROCESS_SIDE_PROCESS_H_
