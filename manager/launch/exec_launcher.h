// Runs plugins as child processes in sessions of their own, which outlive the manager.
//
// The child waits until <socket directory>/process identifies it (pid, start time, boot id), and exits if the manager
// ends before that. So no plugin ever runs without a record.
#pragma once

#include <memory>

#include "manager/launch/launcher.h"

namespace mooring::manager {

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
