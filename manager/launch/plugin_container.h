// The container of a plugin.
#ifndef MOORING_MANAGER_LAUNCH_PLUGIN_CONTAINER_H_
#define MOORING_MANAGER_LAUNCH_PLUGIN_CONTAINER_H_

#include <string>
#include <string_view>

#include "manager/launch/engine_client.h"
#include "manager/launch/launcher.h"

namespace mooring::manager {

class PluginContainer final : public Launched {
 public:
  PluginContainer(EngineClient engine, std::string name);

  bool IsAlive() override;
  std::string Words() override;
  absl::Status End(const EndDeadline& deadline) override;  // and removes it
  std::string Handle() const override;

  absl::StatusOr<nlohmann::json> Inspect(Clock::time_point until) const;
  absl::Status Start(Clock::time_point until) const;
  absl::Status Remove(Clock::time_point until) const;  // where another does so already, that is waited for

 private:
  std::string LastLines() const;
  bool IsGoneBy(Clock::time_point until) const;
  absl::Status Stop(const EndDeadline& deadline) const;

  const EngineClient engine_;
  const std::string name_;
  const std::string path_;
};

// The text in a log as engines send it: frames of 8 bytes (stream, 0, 0, 0, size in big endian) and text.
std::string TextOfFrames(std::string_view frames);

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_LAUNCH_PLUGIN_CONTAINER_H_
