// Makes one system call of a piece of work fail as the kernel might, the others of it and all of everybody else as
// ever: seccomp_unotify(2).
#ifndef MOORING_TESTS_SUPPORT_SYSCALL_FAULTS_H_
#define MOORING_TESTS_SUPPORT_SYSCALL_FAULTS_H_

#include <functional>
#include <string>

#include "absl/status/status.h"

namespace mooring::testing {

struct SyscallFault {
  int nth = 1;             // of the work's calls that can fail here, from 1
  int error = 0;           // errno
  std::string only = {};   // count, and fail, the calls of this name alone; empty: all that the table has
  bool and_after = false;  // every one from then on
};

struct FaultOutcome {
  absl::Status status;
  std::string failed;  // the name of the call that failed; empty where the work ended before its nth
};

// `work` in a thread of its own; programs it runs make their calls undisturbed. Only what the kernel does not let fail
// in this way is left out (close, memory, signals, waiting), and what tells nothing of the mounter (write, poll).
FaultOutcome RunWithFault(const SyscallFault& fault, const std::function<absl::Status()>& work);

}  // namespace mooring::testing

#endif  // MOORING_TESTS_SUPPORT_SYSCALL_FAULTS_H_
