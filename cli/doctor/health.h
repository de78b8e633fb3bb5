// Mounts whose filesystem answers nothing any more: its server is dead (ENOTCONN), has forgotten it (ESTALE), or it was
// shut down after errors (EIO); or hangs.
#ifndef MOORING_CLI_DOCTOR_HEALTH_H_
#define MOORING_CLI_DOCTOR_HEALTH_H_

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

#include "cli/doctor/finding.h"
#include "mounter/mount_graph.h"

namespace mooring::cli::doctor_area {

inline constexpr int kHangs = -1;

// Of each path 0, the errno of looking at it, or kHangs. Asked in a child process, so that one that hangs, even
// unkillably, holds nobody up for longer than `patience`.
std::vector<int> AskMounts(const std::vector<std::string>& paths, std::chrono::milliseconds patience);

// What is wrong with `mount`, given what AskMounts says of it. `pid`: whose namespace it is in, 0 for this one.
Findings FindBroken(const TableMount& mount, int answer, pid_t pid);

}  // namespace mooring::cli::doctor_area

#endif  // MOORING_CLI_DOCTOR_HEALTH_H_
