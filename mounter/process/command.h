// Runs a program with a time limit, for work that no library does: mkfs, e2fsck, resize2fs, lvm, cryptsetup.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "mounter/process/helper_calls.h"

namespace mooring {

struct CommandResult {
  int exit_code = 0;   // 128 + signal if a signal killed it
  std::string output;  // the last 2 KiB of stdout and stderr together; on one line, but for those of lvm

  bool WasKilled() const { return exit_code > 128; }
  bool MeansFullDisk() const {
    return output.find("No space left") != std::string::npos || output.find("quota exceeded") != std::string::npos;
  }
};

// ABORTED: `program` was killed by a signal while it worked on `path`. Its result tells nothing about the file. Check
// WasKilled() before an exit code is taken for the program's judgement.
absl::Status ProgramWasKilled(std::string_view program, const std::string& path, const CommandResult& result);

// Searches PATH for command[0], and runs it without a shell and with an empty stdin. Its environment is PATH, LC_ALL=C
// and `environment`. It inherits the open files `held`, as 3 and so on. So a lock on one lasts until the program has
// ended, even if this process ends first. It can neither mount nor use sockets (mounter/process/helper_calls.h).
//
// FAILED_PRECONDITION: the program is not installed; the message names `package`. DEADLINE_EXCEEDED: it was killed
// after `limit`; the message says whether it still runs a second later.
//
// kLvm, kCryptsetup: neither the program nor its children are ever killed, because that could leave devices suspended.
// They leave the cgroup of the service, so that systemd does not kill them either. After `limit` the program goes on
// alone. DEADLINE_EXCEEDED says so. While a kLvm does, the next is not started: UNAVAILABLE.
//
// All but kTool may lock all their memory.
absl::StatusOr<CommandResult> RunCommand(const std::vector<std::string>& command, const std::string& package,
                                         std::chrono::seconds limit, const std::vector<int>& held = {},
                                         const std::vector<std::string>& environment = {},
                                         ProgramKind kind = ProgramKind::kTool);

// UNAVAILABLE: a kLvm of an earlier call still runs after its limit. Programs that wait for its locks would pile up.
absl::Status CheckNoLvmLingers();

}  // namespace mooring
