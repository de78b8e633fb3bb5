#include "manager/supervisor/engine_client.h"

#include <fmt/format.h>
#include <httplib.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/quote.h"
#include "base/status.h"

namespace mooring::manager {
namespace {

constexpr char kApi[] = "/v1.40";  // Docker 19.03 and Podman 3 have it, and all that came later

std::string EngineWords(const std::string& body) {
  const nlohmann::json parsed = nlohmann::json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (parsed.is_object() && parsed.contains("message") && parsed["message"].is_string()) {
    return parsed["message"].get<std::string>();
  }
  return body.empty() ? "nothing more" : Quote(body);
}

absl::StatusCode CodeOf(int http_status) {
  constexpr int kNotFound = 404, kConflict = 409;
  if (http_status == kNotFound) return absl::StatusCode::kNotFound;
  if (http_status == kConflict) return absl::StatusCode::kAlreadyExists;
  return absl::StatusCode::kInternal;
}

// A connection for one call: the engine may have been restarted since the last.
httplib::Client Connect(const std::string& socket_path, Clock::time_point until) {
  using std::chrono::microseconds;
  const auto left = std::max(std::chrono::duration_cast<microseconds>(until - Clock::now()), microseconds(1));
  httplib::Client client(socket_path);
  client.set_address_family(AF_UNIX);
  client.set_default_headers({{"Host", "localhost"}});
  client.set_connection_timeout(left);
  client.set_read_timeout(left);
  client.set_write_timeout(left);
  return client;
}

absl::StatusOr<std::string> Take(const std::string& what, const std::string& socket, const httplib::Result& result) {
  constexpr int kFirstError = 400;
  if (!result) {
    return Unavailable(
        fmt::format("{}: the container engine at {} does not answer ({}); is Docker, or Podman's API service, running?",
                    what, Quote(socket), httplib::to_string(result.error())));
  }
  if (result->status < kFirstError) return result->body;
  return absl::Status(CodeOf(result->status), fmt::format("{}: the container engine at {} said {}: {}", what,
                                                          Quote(socket), result->status, EngineWords(result->body)));
}

}  // namespace

EngineClient::EngineClient(std::string socket_path) : socket_path_(std::move(socket_path)) {}

absl::StatusOr<std::string> EngineClient::Get(const std::string& what, const std::string& path,
                                              Clock::time_point until) const {
  return Take(what, socket_path_, Connect(socket_path_, until).Get((kApi + path).c_str()));
}

absl::StatusOr<std::string> EngineClient::Post(const std::string& what, const std::string& path,
                                               const nlohmann::json& body, Clock::time_point until) const {
  const std::string text = body.is_null() ? "" : body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return Take(what, socket_path_, Connect(socket_path_, until).Post((kApi + path).c_str(), text, "application/json"));
}

absl::StatusOr<std::string> EngineClient::PostForProgress(const std::string& what, const std::string& path,
                                                          Clock::time_point until,
                                                          const std::function<bool()>& stopped) const {
  std::string progress;
  absl::Status given_up;
  httplib::Request request;
  request.method = "POST";
  request.path = kApi + path;
  request.headers = {{"Host", "localhost"}};
  request.content_receiver = [&](const char* data, std::size_t size, std::uint64_t, std::uint64_t) {
    progress.append(data, size);
    if (stopped && stopped()) given_up = absl::CancelledError(what + ": given up, for it is not wanted any more");
    if (Clock::now() >= until) given_up = absl::DeadlineExceededError(what + ": it took too long");
    return given_up.ok();
  };
  httplib::Result result = Connect(socket_path_, until).send(request);
  MOORING_RETURN_IF_ERROR(given_up);
  if (result) result->body = progress;
  return Take(what, socket_path_, result);
}

absl::Status EngineClient::Delete(const std::string& what, const std::string& path, Clock::time_point until) const {
  return Take(what, socket_path_, Connect(socket_path_, until).Delete((kApi + path).c_str())).status();
}

absl::StatusOr<nlohmann::json> ParseEngineJson(const std::string& what, const std::string& text) {
  nlohmann::json parsed = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_object()) return Internal(fmt::format("{}: the container engine's answer is no JSON object", what));
  return parsed;
}

std::string PercentEncode(std::string_view text) {
  std::string encoded;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                       c == '_' || c == '.' || c == '~';
    encoded += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return encoded;
}

}  // namespace mooring::manager
