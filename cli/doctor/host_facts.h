// The features of the host that Mooring needs: capabilities, system calls, loop devices, filesystems, and a served
// socket.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "cli/doctor/finding.h"

namespace mooring::cli::doctor_area {

struct HostFacts {
  std::uint64_t capabilities = 0;       // the effective set, one bit each, capabilities(7)
  std::set<std::string> missing_calls;  // system calls
  bool loop_control = true;             // /dev/loop-control can be opened
  std::set<std::string> filesystems;    // that the kernel knows or has a module for
};

// Tries each system call with wrong arguments, so that nothing changes.
HostFacts CollectHostFacts();

Findings FindMissing(const HostFacts& facts);

// `problem` is the result of SocketProblem: empty if the socket is served. `state_dir` is for the command.
Findings FindDeadSocket(const std::string& socket, const std::string& problem, const std::string& state_dir);

}  // namespace mooring::cli::doctor_area
