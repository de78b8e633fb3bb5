// A forked child that waits until it is released, so that its record is written before its program starts.
#pragma once

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

// Runs in a session of its own, with no descriptor of the manager but `output`. Exits if this object is destroyed
// before Release.
class HeldChild {
 public:
  static absl::StatusOr<HeldChild> Fork(const ProgramSpec& program);
  HeldChild(HeldChild&&) = default;
  HeldChild& operator=(HeldChild&&) = delete;
  ~HeldChild();

  pid_t pid() const { return pid_; }

  // Starts the program. The error is that of execve(2).
  absl::Status Release();

 private:
  HeldChild(pid_t pid, UniqueFd link);

  pid_t pid_;
  UniqueFd link_;  // a byte sent starts the program, closing it ends the child; the child sends back errno of execve
};

}  // namespace mooring::manager
