// A child that is forked and waits: what has to be written down of it is written before its program begins.
#ifndef MOORING_MANAGER_LAUNCH_HELD_CHILD_H_
#define MOORING_MANAGER_LAUNCH_HELD_CHILD_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file/unique_fd.h"

namespace mooring::manager {

struct ProgramSpec {
  std::string path;  // absolute
  std::vector<std::string> arguments;
  std::vector<std::string> environment;  // "NAME=value"
  int output = -1;                       // stdout and stderr
};

// In a session of its own, with no descriptor of ours but `output`. It ends where this object goes before Release.
class HeldChild {
 public:
  static absl::StatusOr<HeldChild> Fork(const ProgramSpec& program);
  HeldChild(HeldChild&&) = default;
  HeldChild& operator=(HeldChild&&) = delete;
  ~HeldChild();

  pid_t pid() const { return pid_; }

  // Lets the program begin; gives what execve(2) said where it did not.
  absl::Status Release();

 private:
  HeldChild(pid_t pid, UniqueFd link);

  pid_t pid_;
  UniqueFd link_;  // a byte to the child: begin; its end: end. Back comes the errno of execve, or nothing.
};

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_LAUNCH_HELD_CHILD_H_
