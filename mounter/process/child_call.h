// Work in a child process, because it may never end: a mount may wait for a server, or for a program.
//
// The child is confined in these ways:
//   - it leads a session and a process group. SIGKILL ends the group after `limit`, after a failure, and with the
//   thread
//     that started it. A process that has left the group lives on, as a daemon does
//   - SIGHUP, SIGINT, SIGQUIT and SIGTERM to this process end the group, too. Then this process goes on, to clean up
//   - it has /dev/null as standard input and output, a pipe as standard error, and no other descriptor but that of its
//     answer, which a program does not inherit
//   - its environment is PATH=/usr/sbin:/usr/bin:/sbin:/bin and LC_ALL=C, its directory is "/", and its signals are as
//     at the start of a program
//   - no_new_privs, and the seccomp list of ConfineChildCalls (mounter/process/helper_calls.h).
// It is not confined in its capabilities, files, network, namespaces and memory: it can do what root can.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "absl/status/status.h"

namespace mooring {

struct ChildEnd {
  absl::Status status;  // that of the work
  std::string errors;   // the last 2 KiB of its standard error, on one line
};

// `doing` is for messages. `work` may allocate memory, but must take no lock that another thread may hold at the fork.
// DEADLINE_EXCEEDED: it was killed. CANCELLED: a signal came, and it was killed. INTERNAL: it ended without an answer.
ChildEnd RunInChild(const std::string& doing, std::chrono::milliseconds limit,
                    const std::function<absl::Status()>& work);

}  // namespace mooring
