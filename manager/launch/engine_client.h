// Client for the API of Docker or Podman: JSON over HTTP on a unix socket.
#pragma once

#include <nlohmann/json.hpp>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "manager/csi/csi_channel.h"

namespace mooring::manager {

class EngineClient {
 public:
  // `stop` ends the call that is under way, and all later ones.
  explicit EngineClient(std::string socket_path, std::stop_token stop = {});

  // `what` names the operation in errors. `until` also ends a call that reports progress for long. UNAVAILABLE: the
  // engine does not answer. NOT_FOUND, ALREADY_EXISTS (a conflict) and INTERNAL have the engine's message. CANCELLED:
  // `stop` was requested; the engine may or may not have done the operation.
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

// Parses an engine's answer. INTERNAL: it is not of this form.
absl::StatusOr<nlohmann::json> ParseEngineJson(const std::string& what, const std::string& text);
absl::StatusOr<nlohmann::json> ParseEngineList(const std::string& what, const std::string& text);

// Encodes a name for use in the path or query of a URL.
std::string PercentEncode(std::string_view text);

// Gives the string member `name` of `object`; "" if there is none.
inline std::string Text(const nlohmann::json& object, const char* name) {
  if (!object.is_object()) return "";
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

}  // namespace mooring::manager
