// The container in which a plugin runs.
#pragma once

#include <string>
#include <string_view>

#include "manager/launch/engine_client.h"
#include "manager/launch/launcher.h"

namespace mooring::manager {

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

}  // namespace mooring::manager
