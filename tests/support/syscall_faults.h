// Makes one system call of a thread fail, with seccomp_unotify(2). Its other calls and those of other threads work.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"

namespace mooring::testing {

struct SyscallFault {
  int nth = 1;             // which of the calls that can fail here, from 1
  int error = 0;           // errno
  std::string only = {};   // counts only calls of this name; empty: every call in the table
  bool and_after = false;  // the calls after it fail, too
};

struct FaultOutcome {
  absl::Status status;
  std::string failed;  // the name of the call that failed; empty: there were fewer than `nth`
};

// Runs `work` in a thread of its own. The programs that it runs are not affected. Calls that do not fail in this way
// are not in the table (close, memory, signals, waiting). Neither are write and poll: their errors tell nothing about
// the mounter.
FaultOutcome RunWithFault(const SyscallFault& fault, const std::function<absl::Status()>& work);

}  // namespace mooring::testing
