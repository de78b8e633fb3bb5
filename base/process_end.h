// A limit for the end of a process.
#pragma once

#include <chrono>

namespace mooring {

// Ends the process with `exit_status` after `time`, whatever its threads do. Writes `why` to standard error. A later
// call replaces an earlier one. `time` is at least a second. `why` is a string literal, with a newline.
//
// SIGALRM does it, so this needs neither a thread nor memory. At the end, libraries may wait for a thread that never
// started, because a limit of processes was reached.
void EndProcessAfter(std::chrono::seconds time, int exit_status, const char* why);

}  // namespace mooring
