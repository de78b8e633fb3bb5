// Runs plugins as child processes in sessions of their own, which outlive the manager.
//
// The child waits until <socket directory>/process identifies it (pid, start time, boot id), and exits if the manager
// ends before that. So no plugin ever runs without a record.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file/unique_fd.h"
#include "manager/launch/launcher.h"

namespace mooring::manager {

struct ProgramSpec {
  std::string path;  // absolute
  std::vector<std::string> arguments;
  std::vector<std::string> environment;  // "NAME=value"
  int output = -1;                       // stdout and stderr
};

// A forked child that waits until it is released, so that its record is written before its program starts. Runs in a
// session of its own, with no descriptor of the manager but `output`. Exits if this object is destroyed
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

class ExecLauncher final : public Launcher {
 public:
  // INVALID_ARGUMENT: there is no such program. The environment has PATH, HOME, the locale, TZ and TMPDIR of the
  // manager, kMountRootVariable, the variables of the run, and CSI_ENDPOINT.
  absl::StatusOr<std::unique_ptr<Launched>> Launch(const LaunchSpec& spec, Clock::time_point until) override;
  absl::StatusOr<std::unique_ptr<Launched>> Adopt(const LaunchSpec& spec) override;
  // There are none: processes end with the boot, and start only after their record is written.
  absl::Status EndStrays(const std::string& engine, Clock::time_point until, std::stop_token stop) override;
};

}  // namespace mooring::manager
