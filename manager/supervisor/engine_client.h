// The API of a container engine, Docker's or Podman's, on its unix socket: JSON over HTTP.
#ifndef MOORING_MANAGER_SUPERVISOR_ENGINE_CLIENT_H_
#define MOORING_MANAGER_SUPERVISOR_ENGINE_CLIENT_H_

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "manager/csi/csi_channel.h"

namespace mooring::manager {

class EngineClient {
 public:
  explicit EngineClient(std::string socket_path);

  // `what` is done, for messages. UNAVAILABLE: nobody answers there; NOT_FOUND, ALREADY_EXISTS (a conflict) and
  // INTERNAL have the engine's words.
  absl::StatusOr<std::string> Get(const std::string& what, const std::string& path, Clock::time_point until) const;
  absl::StatusOr<std::string> Post(const std::string& what, const std::string& path, const nlohmann::json& body,
                                   Clock::time_point until) const;
  // A call that tells of its progress for long. CANCELLED: `stopped` (may be empty) said so; DEADLINE_EXCEEDED: `until`
  // is over. Both are looked at whenever something comes.
  absl::StatusOr<std::string> PostForProgress(const std::string& what, const std::string& path, Clock::time_point until,
                                              const std::function<bool()>& stopped) const;
  absl::Status Delete(const std::string& what, const std::string& path, Clock::time_point until) const;

  const std::string& socket_path() const { return socket_path_; }

 private:
  std::string socket_path_;
};

// What an engine sent, as JSON; INTERNAL: it is none.
absl::StatusOr<nlohmann::json> ParseEngineJson(const std::string& what, const std::string& text);

// A name as part of a path or a query.
std::string PercentEncode(std::string_view text);

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_SUPERVISOR_ENGINE_CLIENT_H_
