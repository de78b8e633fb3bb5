// How a plugin's process is started and ended: as a child, or as a container. (j) 1
#ifndef MOORING_MANAGER_LAUNCH_LAUNCHER_H_
#define MOORING_MANAGER_LAUNCH_LAUNCHER_H_

#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "manager/csi/csi_channel.h"
#include "manager/launch/end_deadline.h"
#include "manager/records/records.h"

namespace mooring::manager {

// mooring-plugin mounts below the directories that this variable names; to other drivers it means nothing. It is set
// to `root` unless the run's environment has it.
inline constexpr char kMountRootVariable[] = "MOORING_MOUNT_ROOT";

struct LaunchSpec {
  std::string plugin;
  std::string instance_id;       // names the container, and tells one instance from another
  PluginRecord::Run run;         // its placeholders are filled in, see placeholders.h
  std::string socket_directory;  // on the host, made by the supervisor; the plugin is to serve csi.sock in it
  std::string root;              // staging and target paths lie below it: bound into a container with rshared
  std::stop_token stop;          // a launch that takes long is given up at once
};

// One plugin process. It lives on when this object goes: mounts and users do not care for the manager's life. Used by
// one thread at a time.
class Launched {
 public:
  virtual ~Launched() = default;

  // False only where that is known: an engine that does not answer is no reason to start a second plugin.
  virtual bool IsAlive() = 0;
  virtual std::string Words() = 0;  // how it ended, where it ended, and its last lines

  // SIGTERM, and SIGKILL at the deadline. Gone already is OK. CANCELLED: it was given up, and the process may run on.
  virtual absl::Status End(const EndDeadline& deadline) = 0;

  // For people: "process 4711", "container mooring-db-5f3a0c11".
  virtual std::string Handle() const = 0;

  // A descriptor that becomes readable when it ends; -1 where only IsAlive tells. The object keeps it.
  virtual int ExitFd() const { return -1; }
};

class Launcher {
 public:
  virtual ~Launcher() = default;

  // Started, not yet serving. CSI_ENDPOINT is set, and SIGTERM ends it. Killed at any instruction, the manager finds it
  // by Adopt, or it was never started.
  virtual absl::StatusOr<std::unique_ptr<Launched>> Launch(const LaunchSpec& spec, Clock::time_point until) = 0;

  // One that an earlier manager launched with this instance id and directory. NOT_FOUND: it is gone.
  virtual absl::StatusOr<std::unique_ptr<Launched>> Adopt(const LaunchSpec& spec) = 0;

  // Ends what this manager, or one before it, launched and no instance directory tells of any more: what a reboot, or
  // an answer that was lost, has left. `engine` as in a run. For the start: Launch does it for its own plugin.
  virtual absl::Status EndStrays(const std::string& engine, Clock::time_point until, std::stop_token stop) = 0;
};

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_LAUNCH_LAUNCHER_H_
