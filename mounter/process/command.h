// Runs a program where no library does its work (mkfs, e2fsck, resize2fs), with a deadline.
#ifndef MOORING_MOUNTER_PROCESS_COMMAND_H_
#define MOORING_MOUNTER_PROCESS_COMMAND_H_

#include <chrono>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/file/unique_fd.h"

namespace mooring {

struct CommandResult {
  int exit_code = 0;   // 128 + signal where a signal ended it
  std::string output;  // the last 2 KiB of stdout and stderr together, on one line
};

// Found on PATH; no shell, no stdin; in its environment PATH, LC_ALL=C and what `environment` adds. FAILED_PRECONDITION
// names `package` where the program is not installed; DEADLINE_EXCEEDED: killed after `limit`, and where the message
// says so not ended a second later. The program inherits `held`: a lock on it lasts until the program has ended, also
// where this process ends first. It can neither mount nor use sockets: mounter/process/helper_calls.h.
absl::StatusOr<CommandResult> RunCommand(const std::vector<std::string>& command, const std::string& package,
                                         std::chrono::seconds limit, const UniqueFd& held = UniqueFd(),
                                         const std::vector<std::string>& environment = {});

}  // namespace mooring

#endif  // MOORING_MOUNTER_PROCESS_COMMAND_H_
