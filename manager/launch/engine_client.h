// The API of a container engine, Docker's or Podman's, on its unix socket: JSON over HTTP.
#ifndef MOORING_MANAGER_LAUNCH_ENGINE_CLIENT_H_
#define MOORING_MANAGER_LAUNCH_ENGINE_CLIENT_H_

#include <nlohmann/json.hpp>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "manager/csi/csi_channel.h"

namespace mooring::manager {

class EngineClient {
 public:
  // `stop` ends a call that is under way at once, and all that follow.
  explicit EngineClient(std::string socket_path, std::stop_token stop = {});

  // `what` is done, for messages. `until` is the end also of what tells of its progress for long. UNAVAILABLE: nobody
  // answers there; NOT_FOUND, ALREADY_EXISTS (a conflict) and INTERNAL have the engine's words; CANCELLED: it was
  // stopped, and what the engine has done is not known.
  absl::StatusOr<std::string> Get(const std::string& what, const std::string& path, Clock::time_point until) const;
  absl::StatusOr<std::string> Post(const std::string& what, const std::string& path, const nlohmann::json& body,
                                   Clock::time_point until) const;
  absl::Status Delete(const std::string& what, const std::string& path, Clock::time_point until) const;

  const std::string& socket_path() const { return socket_path_; }

 private:
  absl::StatusOr<std::string> Send(const std::string& what, const char* method, const std::string& path,
                                   const std::string& body, Clock::time_point until) const;

  std::string socket_path_;
  std::stop_token stop_;
};

// What an engine sent, as JSON; INTERNAL: it is none.
absl::StatusOr<nlohmann::json> ParseEngineJson(const std::string& what, const std::string& text);
absl::StatusOr<nlohmann::json> ParseEngineList(const std::string& what, const std::string& text);

// A name as part of a path or a query.
std::string PercentEncode(std::string_view text);

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_LAUNCH_ENGINE_CLIENT_H_
