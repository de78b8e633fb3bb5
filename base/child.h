// Child processes: starting a program, waiting for its end, and the text that says how it ended.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/file/unique_fd.h"

namespace mooring {

struct SpawnSpec {
  std::string program;                                // its path; PATH is not searched
  std::vector<std::string> arguments;                 // argv, so the first one is a name of the program
  std::optional<std::vector<std::string>> variables;  // "NAME=value"; not set: the environment of this process

  // The child gets the first of each pair under the number of the second. Standard input is empty unless it is listed.
  // Descriptors without O_CLOEXEC are inherited too.
  std::vector<std::pair<int, int>> descriptors;

  // The child leads a process group of its own, so that kill(2) can reach all of it, and no signal is blocked in it.
  bool leads_group = false;
};

// posix_spawn(3). The error names the program.
absl::StatusOr<pid_t> SpawnProgram(const SpawnSpec& spec);

// The pointers to `texts` and a null pointer, as execve(2) takes them. Valid while `texts` is not changed.
std::vector<char*> PointersTo(const std::vector<std::string>& texts);

// pidfd_open(2): readable when the process has ended. Not open and errno on failure.
UniqueFd OpenPidFd(pid_t pid);

// False: the process still runs after `patience`, or `pidfd` is not open.
bool EndsWithin(const UniqueFd& pidfd, std::chrono::milliseconds patience);

// waitpid(2), repeated after a signal: the wait status of an ended child.
int AwaitChild(pid_t pid);

// "exit status 1", "killed by signal 9 (Killed)", from a wait status.
std::string HowChildEnded(int wait_status);

}  // namespace mooring
