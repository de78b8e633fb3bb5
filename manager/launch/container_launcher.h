// Plugins as privileged containers of Docker or Podman, which outlive the manager. A container is found again by its
// name, which is made from the instance id: nothing has to be written down. Its labels tell whose it is:
//
//   mooring.manager (ContainerOwner::id)   mooring.runtime (ContainerOwner::socket_root)   mooring.host
//   mooring.plugin   mooring.instance   mooring.generation
//
// One with the first two labels of this manager whose instance is not on record is a stray: a reboot took its
// directory, or the engine made it after its answer was given up. It is removed before its plugin is launched anew.
// Others' are left alone.
//
// Bound in at their own paths: /dev, the socket directory, and the root of staging and target paths with rshared, so
// that the plugin's mounts are seen on the host and the host's in the plugin; and the binds of its run. Host network:
// plugins speak to storage.
#ifndef MOORING_MANAGER_LAUNCH_CONTAINER_LAUNCHER_H_
#define MOORING_MANAGER_LAUNCH_CONTAINER_LAUNCHER_H_

#include <memory>
#include <string>

#include "manager/launch/launcher.h"

namespace mooring::manager {

struct ContainerOwner {
  std::string id;           // of this manager's state: no other has it, but for a copy
  std::string host;         // for people
  std::string socket_root;  // where the directories of its instances are: a manager beside it has another
};

class ContainerLauncher final : public Launcher {
 public:
  // The engine of runs that name none: the path of its API socket.
  ContainerLauncher(std::string default_engine, ContainerOwner owner);

  // An image that the engine has not got is pulled.
  absl::StatusOr<std::unique_ptr<Launched>> Launch(const LaunchSpec& spec, Clock::time_point until) override;
  absl::StatusOr<std::unique_ptr<Launched>> Adopt(const LaunchSpec& spec) override;
  absl::Status EndStrays(const std::string& engine, Clock::time_point until, std::stop_token stop) override;

 private:
  std::string EngineOf(const std::string& engine) const;

  const std::string default_engine_;
  const ContainerOwner owner_;
};

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_LAUNCH_CONTAINER_LAUNCHER_H_
