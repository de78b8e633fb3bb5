// The processes of a plugin's mount helper, found as ps finds them.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace mooring::testing {

std::vector<pid_t> ChildrenOf(pid_t pid);  // with zombies
std::string NameOfProcess(pid_t pid);      // "mooring-spawner"
pid_t SpawnerOf(pid_t plugin);             // -1: none
pid_t HelperOf(pid_t plugin);              // -1: none

// The status file of each thread that lives. gRPC ends threads that have no work.
std::vector<std::string> ThreadStatuses(pid_t pid);

}  // namespace mooring::testing
