// Runs plugins as privileged containers of Docker or Podman, which outlive the manager. The name of a container is made
// from the instance id, so the next manager finds it without a record. Its labels name its owner:
//
//   mooring.manager (ContainerOwner::id)   mooring.runtime (ContainerOwner::socket_root)   mooring.host
//   mooring.plugin   mooring.instance   mooring.generation
//
// A stray is a container with the first two labels of this manager whose instance has no directory. A reboot removed
// the directory, or the engine made the container after the call was given up. A stray is removed before its plugin is
// launched again. Containers of other owners are left alone.
//
// Binds, each at its own path: /dev, the socket directory, and the root of staging and target paths. The root has
// rshared propagation, so that host and plugin see each other's mounts. The binds of the run follow. The container uses
// the host's network, because plugins connect to storage.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "manager/launch/engine_client.h"
#include "manager/launch/launcher.h"

namespace mooring::manager {

// The container in which a plugin runs.
class PluginContainer final : public Launched {
 public:
  PluginContainer(EngineClient engine, std::string name);

  bool IsAlive() override;
  std::string Describe() override;
  absl::Status End(Clock::time_point until, const std::stop_token& stop) override;  // also removes it
  std::string Handle() const override;

  absl::StatusOr<nlohmann::json> Inspect(Clock::time_point until) const;
  absl::Status Start(Clock::time_point until) const;
  absl::Status Remove(Clock::time_point until) const;  // waits if another client is removing it

 private:
  std::string LastLines() const;
  bool IsGoneBy(Clock::time_point until) const;

  const EngineClient engine_;
  const std::string name_;
  const std::string path_;
};

// Extracts the text of a log from the frames of the engine: 8 bytes (stream, 0, 0, 0, size in big endian), then text.
std::string TextOfFrames(std::string_view frames);

struct ContainerOwner {
  std::string id;           // of this manager's state; only a copy of the state has the same
  std::string host;         // for people
  std::string socket_root;  // the directories of its instances lie below it; another manager on the host has another
};

class ContainerLauncher final : public Launcher {
 public:
  // `default_engine`: path of the API socket, for runs that name no engine.
  ContainerLauncher(std::string default_engine, ContainerOwner owner);

  // Pulls the image if the engine does not have it.
  absl::StatusOr<std::unique_ptr<Launched>> Launch(const LaunchSpec& spec, Clock::time_point until) override;
  absl::StatusOr<std::unique_ptr<Launched>> Adopt(const LaunchSpec& spec) override;
  absl::Status EndStrays(const std::string& engine, Clock::time_point until, std::stop_token stop) override;

 private:
  std::string EngineOf(const std::string& engine) const;

  const std::string default_engine_;
  const ContainerOwner owner_;
};

}  // namespace mooring::manager
