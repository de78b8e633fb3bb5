// Interface to start and end the process of a plugin: as a child process, or as a container.
#pragma once

#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "manager/csi/csi_channel.h"
#include "manager/records/records.h"

namespace mooring::manager {

// Placeholders in a plugin's command line and environment, because each driver has its own flag for its socket.
//
//   {endpoint}   unix:///run/mooring/plugins/NAME-5f3a0c11/csi.sock, as in CSI_ENDPOINT
//   {socket}     the same without unix://
//   {node}       the name of this host in the manager's records
//
// Other text in braces stays as it is, so that an argument may be JSON. Double braces are an escape: "{{node}}" becomes
// "{node}".
struct PlaceholderValues {
  std::string socket;
  std::string node;
};

std::string EndpointOf(const std::string& socket);  // "unix://" and the path

// Fills in all arguments of the command and all values of the environment.
PluginRecord::Run FillPlaceholders(PluginRecord::Run run, const PlaceholderValues& values);

// mooring-plugin mounts below the directories that this variable names; other drivers ignore it. It is set to
// LaunchSpec::root unless the environment of the run has it.
inline constexpr char kMountRootVariable[] = "MOORING_MOUNT_ROOT";

struct LaunchSpec {
  std::string plugin;
  std::string instance_id;       // unique; the name of a container is made from it
  PluginRecord::Run run;         // with its placeholders filled in, see FillPlaceholders
  std::string socket_directory;  // on the host, made by the supervisor; the plugin serves csi.sock in it
  std::string root;              // staging and target paths lie below it; bound into a container with rshared
  std::stop_token stop;          // ends a launch that is under way
};

// The process or container of a plugin. It runs on when this object is destroyed, because mounts and their users do not
// depend on the manager. Used by one thread at a time.
class Launched {
 public:
  virtual ~Launched() = default;

  // False only if the end is certain: an engine that does not answer is no reason to start a second plugin.
  virtual bool IsAlive() = 0;
  virtual std::string Describe() = 0;  // whether it runs or how it ended, and its last lines of output

  // Sends SIGTERM, and SIGKILL at `until`. OK also if it has ended already. CANCELLED: `stop` was requested, and the
  // process may run on; End may be called again, with another deadline.
  virtual absl::Status End(Clock::time_point until, const std::stop_token& stop) = 0;

  // For people: "process 4711", "container mooring-db-5f3a0c11".
  virtual std::string Handle() const = 0;

  // A descriptor of this object that becomes readable when the process ends; -1: only IsAlive shows the end.
  virtual int ExitFd() const { return -1; }
};

class Launcher {
 public:
  virtual ~Launcher() = default;

  // Starts the plugin with CSI_ENDPOINT set; it may not serve yet. Wherever the manager is killed during this call, the
  // plugin was either not started, or Adopt of the next manager finds it.
  virtual absl::StatusOr<std::unique_ptr<Launched>> Launch(const LaunchSpec& spec, Clock::time_point until) = 0;

  // Finds what an earlier manager launched with this instance id and directory. NOT_FOUND: it is gone.
  virtual absl::StatusOr<std::unique_ptr<Launched>> Adopt(const LaunchSpec& spec) = 0;

  // Ends what this manager or an earlier one launched and no instance directory describes any more. A reboot, or a lost
  // answer of the engine, leaves such containers. `engine`: as in a run. Called at the start; Launch does the same for
  // its own plugin.
  virtual absl::Status EndStrays(const std::string& engine, Clock::time_point until, std::stop_token stop) = 0;
};

// Paths that the manager itself binds into every container, each at its own path.
struct ManagerPaths {
  std::string root;         // staging and target paths lie below it; bound with rshared
  std::string socket_root;  // each instance has a directory of its own below it
};

// Checks a declaration before it is stored. Gives `run` with its paths normalised. INVALID_ARGUMENT: the plugin cannot
// be run like this.
absl::StatusOr<PluginRecord::Run> CheckRun(PluginRecord::Run run, const ManagerPaths& paths);

}  // namespace mooring::manager
