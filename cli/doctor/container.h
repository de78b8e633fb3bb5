// From a container's id to a process in it, without the container's engine: docker, podman, containerd and CRI-O all
// write the id into the path of its cgroup, or into the command line of the process that watches over it.
#ifndef MOORING_CLI_DOCTOR_CONTAINER_H_
#define MOORING_CLI_DOCTOR_CONTAINER_H_

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
  std::string command;  // /proc/PID/cmdline, with blanks
};

std::vector<ProcessFacts> CollectProcesses();

// The first process of the container: one in a mount namespace other than `own`. INVALID_ARGUMENT: no id, or fewer than
// 12 characters of one. NOT_FOUND: no such container runs. FAILED_PRECONDITION: the beginning of several ids.
absl::StatusOr<pid_t> FindContainer(const std::vector<ProcessFacts>& processes, const std::string& id,
                                    std::uint64_t own);

}  // namespace mooring::cli::doctor_area

#endif  // MOORING_CLI_DOCTOR_CONTAINER_H_
