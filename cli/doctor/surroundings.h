// What Mooring needs of its surroundings: capabilities, system calls, loop devices, filesystems, a socket that somebody
// serves.
#ifndef MOORING_CLI_DOCTOR_SURROUNDINGS_H_
#define MOORING_CLI_DOCTOR_SURROUNDINGS_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "cli/doctor/finding.h"

namespace mooring::cli::doctor_area {

struct Surroundings {
  std::uint64_t capabilities = 0;       // effective, a bit each, capabilities(7)
  std::set<std::string> missing_calls;  // of those that FindMissing knows
  bool loop_control = true;             // /dev/loop-control can be opened
  std::set<std::string> filesystems;    // that the kernel knows, or has a module for
};

// Every call is tried with arguments that make it fail: nothing changes.
Surroundings CollectSurroundings();

Findings FindMissing(const Surroundings& surroundings);

// `problem`: of SocketProblem; empty: somebody serves it. `state_dir` goes into the command.
Findings FindDeadSocket(const std::string& socket, const std::string& problem, const std::string& state_dir);

}  // namespace mooring::cli::doctor_area

#endif  // MOORING_CLI_DOCTOR_SURROUNDINGS_H_
