// A small process beside the mount helper, which has one task and outlives the helper. It thaws filesystems that the
// helper left frozen (mounter/copy/freeze.h), or holds a device open (mounter/loop/device_holder.h).
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace mooring {

struct SideProcessSpec {
  std::string name;              // in ps; at most 15 bytes
  std::vector<int> kept;         // the descriptors that stay open; all others are closed
  bool keeps_sys_admin = false;  // keeps CAP_SYS_ADMIN; all other capabilities are dropped
  bool ends_on_sigterm = false;  // a shutdown sends SIGTERM, and waits for processes that do not end
};

// Forks a child that runs `work` and exits with its result. The child leads a session, blocks all signals that can be
// blocked (except SIGTERM, if `spec` says so), and is exempt from the OOM killer. If cgroup v2 is writable, the child
// moves to the root cgroup, so that it outlives the service that started it. Returns when the child has its name and
// its descriptors.
//
// `work` may make system calls only: other threads of this process may have held locks at the fork.
absl::StatusOr<pid_t> StartSideProcess(const SideProcessSpec& spec, const std::function<int()>& work);

// Kills a side process, child or not, and waits until its descriptors are closed. False: it still runs after two
// seconds. `is_meant` runs after the process was opened with pidfd_open(2), so that the pid cannot pass to another
// process in between. If it returns false, the process is not killed.
bool EndSideProcess(pid_t pid, const std::function<bool()>& is_meant = {});

}  // namespace mooring
