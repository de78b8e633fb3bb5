// Plugins as privileged containers of Docker or Podman, which outlive the manager. A container is found again by its
// name, which is made from the instance id: nothing has to be written down.
//
// Bound in at their own paths: /dev, the socket directory, and the root of staging and target paths with rshared, so
// that the plugin's mounts are seen on the host and the host's in the plugin; and the binds of its run. Host network:
// plugins speak to storage.
#ifndef MOORING_MANAGER_SUPERVISOR_CONTAINER_LAUNCHER_H_
#define MOORING_MANAGER_SUPERVISOR_CONTAINER_LAUNCHER_H_

#include <memory>
#include <string>

#include "manager/supervisor/launcher.h"

namespace mooring::manager {

class ContainerLauncher final : public Launcher {
 public:
  // The engine of runs that name none: the path of its API socket.
  explicit ContainerLauncher(std::string default_engine);

  // An image that the engine has not got is pulled.
  absl::StatusOr<std::unique_ptr<Launched>> Launch(const LaunchSpec& spec, Clock::time_point until) override;
  absl::StatusOr<std::unique_ptr<Launched>> Adopt(const LaunchSpec& spec) override;

 private:
  std::string EngineOf(const LaunchSpec& spec) const;

  std::string default_engine_;
};

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_SUPERVISOR_CONTAINER_LAUNCHER_H_
