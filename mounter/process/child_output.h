// The output of a child process: its last 2 KiB, for messages.
#pragma once

#include <chrono>
#include <string>

#include "base/file/unique_fd.h"

namespace mooring {

// Waits for the end of the process, and adds to `tail` what comes out of its pipe `output`, which does not block. The
// end of the output does not count: the process may close it, and its children may keep it open. False: the deadline
// comes first, or `interruption` is readable.
bool AwaitEnd(const UniqueFd& pidfd, const UniqueFd& output, std::chrono::steady_clock::time_point deadline,
              std::string& tail, const UniqueFd& interruption = UniqueFd());

std::string OneLine(std::string text);

}  // namespace mooring
