// Plugins as processes: children in sessions of their own, which outlive the manager.
//
// Which process it is stands in <socket directory>/process (pid, start time, boot) before the program begins: the child
// waits for that, and ends where the manager does. So no plugin ever runs that nobody knows of.
#ifndef MOORING_MANAGER_LAUNCH_EXEC_LAUNCHER_H_
#define MOORING_MANAGER_LAUNCH_EXEC_LAUNCHER_H_

#include <memory>

#include "manager/launch/launcher.h"

namespace mooring::manager {

class ExecLauncher final : public Launcher {
 public:
  // INVALID_ARGUMENT: there is no such program. Its environment: PATH, HOME and the locale of the manager, what `run`
  // says, CSI_ENDPOINT.
  absl::StatusOr<std::unique_ptr<Launched>> Launch(const LaunchSpec& spec, Clock::time_point until) override;
  absl::StatusOr<std::unique_ptr<Launched>> Adopt(const LaunchSpec& spec) override;
  // None: what ran ends with the boot, and starts only once its directory tells of it.
  absl::Status EndStrays(const std::string& engine, Clock::time_point until, std::stop_token stop) override;
};

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_LAUNCH_EXEC_LAUNCHER_H_
