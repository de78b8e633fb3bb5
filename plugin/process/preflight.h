// Checks the host for things that the plugin needs and cannot repair. It needs a writable state directory, loop
// devices, and mounts that are visible outside its container. Each Probe repeats the checks, so a repaired host needs
// no restart.
#pragma once

#include <chrono>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "mounter/mounter.h"
#include "plugin/config/config.h"

namespace mooring {

// True if this process has another mount namespace than its parent, so that others see its mounts only below shared
// mounts. False if that is unknown. Called while this process is privileged.
bool HasOwnMountNamespace();

class HostPreflight {
 public:
  // `mounter` outlives it.
  HostPreflight(const Config& config, Mounter& mounter);

  // FAILED_PRECONDITION names what is missing, the path, the kernel's error and the remedy. A check takes some tens of
  // microseconds and runs at most once a second. While one hangs, its caller waits for at most two seconds, and all
  // others get the last result.
  absl::Status Check();
  absl::Status Last() const;  // the result of the last Check()

  // Checks now whether others see the mounts below the mount roots. FAILED_PRECONDITION: they do not. Another error:
  // that is unknown. OK if the configuration does not ask for it.
  absl::Status CheckSeenOutside();

 private:
  absl::Status RunChecks();
  void WarnForSomePools();
  void LogChange(const absl::Status& now);

  const std::string state_dir_;
  Mounter& mounter_;
  bool mounts_ = false;
  Needs needs_;
  bool loops_for_some_ = false;  // only some pools need loop devices: a missing one is a warning
  bool encrypts_ = false;        // some pools need the device mapper

  std::mutex checking_;  // guards the two below
  std::chrono::steady_clock::time_point checked_ = {};
  bool warned_ = false;
  mutable std::mutex mutex_;
  absl::Status last_;
};

}  // namespace mooring
