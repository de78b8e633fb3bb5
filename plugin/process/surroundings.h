// What the plugin cannot do without and only others can mend: a state directory that can be written to, loop devices,
// mounts that come out of the container. Asked on each Probe, so that it heals by itself; logged when it changes.
#ifndef MOORING_PLUGIN_PROCESS_SURROUNDINGS_H_
#define MOORING_PLUGIN_PROCESS_SURROUNDINGS_H_

#include <chrono>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "mounter/mounter.h"
#include "plugin/process/config.h"

namespace mooring {

// The mount namespace is not that of whoever started this process: nothing that is mounted in it is seen there, unless
// it is shared. Asked while this process is privileged; false where it cannot be told.
bool HasOwnMountNamespace();

class SurroundingsCheck {
 public:
  // `mounter` outlives it.
  SurroundingsCheck(const Config& config, Mounter& mounter);

  // FAILED_PRECONDITION: what is missing, at which path, what the kernel said and what to do. Some tens of
  // microseconds, once a second at most. What hangs holds up one caller for a moment; the others hear what was last
  // known.
  absl::Status Check();
  absl::Status Last() const;  // what that found, without a new look

  // Whether what is mounted below the mount roots is seen by others, looked at now: FAILED_PRECONDITION where it is
  // not, another error where it cannot be told. OK where nobody has asked for that.
  absl::Status CheckSeenOutside();

 private:
  absl::Status Look();
  void Note(const absl::Status& now);

  const std::string state_dir_;
  Mounter& mounter_;
  bool mounts_ = false;
  Needs needs_;
  bool loops_for_some_ = false;  // of the pools: then their lack is worth a warning, and the others are served

  std::mutex checking_;  // of the two below
  std::chrono::steady_clock::time_point checked_ = {};
  bool warned_ = false;
  mutable std::mutex mutex_;
  absl::Status last_;
};

}  // namespace mooring

#endif  // MOORING_PLUGIN_PROCESS_SURROUNDINGS_H_
