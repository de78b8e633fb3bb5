// Finds a process of a container by the container's ID, without the container engine. All common engines write the ID
// into the path of the cgroup, or into the command line of the process that watches the container.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace mooring::cli::doctor_area {

struct ProcessFacts {
  pid_t pid = 0;
  pid_t parent = 0;
  std::uint64_t mount_namespace = 0;
  std::string cgroup;   // /proc/PID/cgroup
  std::string command;  // /proc/PID/cmdline, separated by blanks
};

std::vector<ProcessFacts> CollectProcesses();

// The first process of the container, which is in a mount namespace other than `own`. INVALID_ARGUMENT: not an ID, or
// fewer than 12 digits of one. NOT_FOUND: no such container runs. FAILED_PRECONDITION: several IDs begin with `id`.
absl::StatusOr<pid_t> FindContainer(const std::vector<ProcessFacts>& processes, const std::string& id,
                                    std::uint64_t own);

}  // namespace mooring::cli::doctor_area
