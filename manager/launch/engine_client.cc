#include "manager/launch/engine_client.h"

#include <fmt/format.h>
#include <httplib.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/status.h"
#include "base/text/quote.h"

namespace mooring::manager {
namespace {

constexpr char kApi[] = "/v1.40";  // since Docker 19.03 and Podman 3

std::string EngineMessage(const std::string& body) {
  const nlohmann::json parsed = nlohmann::json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (std::string message = Text(parsed, "message"); !message.empty()) return message;
  return body.empty() ? "no message" : Quote(body);
}

absl::StatusCode CodeOf(int http_status) {
  constexpr int kNotFound = 404, kConflict = 409;
  if (http_status == kNotFound) return absl::StatusCode::kNotFound;
  if (http_status == kConflict) return absl::StatusCode::kAlreadyExists;
  return absl::StatusCode::kInternal;
}

// Each call has a client of its own, because the engine may have been restarted since the last call.
void Prepare(httplib::Client& client, Clock::time_point until) {
  using std::chrono::microseconds;
  const auto left = std::max(std::chrono::duration_cast<microseconds>(until - Clock::now()), microseconds(1));
  client.set_address_family(AF_UNIX);
  client.set_connection_timeout(left);
  client.set_read_timeout(left);
  client.set_write_timeout(left);
}

absl::StatusOr<std::string> ToBody(const std::string& what, const std::string& socket, const httplib::Result& result) {
  constexpr int kFirstError = 400;
  if (!result) {
    return Unavailable("{}: the container engine at {} does not answer ({}); start Docker or Podman's API service",
                       what, Quote(socket), httplib::to_string(result.error()));
  }
  if (result->status < kFirstError) return result->body;
  return absl::Status(CodeOf(result->status), fmt::format("{}: the container engine at {} said {}: {}", what,
                                                          Quote(socket), result->status, EngineMessage(result->body)));
}

}  // namespace

EngineClient::EngineClient(std::string socket_path, std::stop_token stop)
    : socket_path_(std::move(socket_path)), stop_(std::move(stop)) {}

// stop() of the client ends a call only after the client has stored its socket. A call that is stopped earlier is ended
// by a shutdown of the socket.
absl::StatusOr<std::string> EngineClient::Send(const std::string& what, const char* method, const std::string& path,
                                               const std::string& body, Clock::time_point until) const {
  httplib::Client client(socket_path_);
  Prepare(client, until);
  client.set_socket_options([this](int socket) {
    if (stop_.stop_requested()) ::shutdown(socket, SHUT_RD);
  });
  const std::stop_callback on_stop(stop_, [&client] { client.stop(); });

  std::string answer;
  bool too_long = false;
  httplib::Request request;
  request.method = method;
  request.path = kApi + path;
  request.headers = {{"Host", "localhost"}};
  request.body = body;
  if (!body.empty()) request.headers.emplace("Content-Type", "application/json");
  request.content_receiver = [&](const char* data, std::size_t size, std::uint64_t, std::uint64_t) {
    answer.append(data, size);
    too_long = Clock::now() >= until;  // also for an engine that keeps sending a little
    return !too_long;
  };
  httplib::Result result = client.send(request);
  if (stop_.stop_requested()) return absl::CancelledError(what + ": cancelled");
  if (too_long) return absl::DeadlineExceededError(what + ": the container engine did not finish in time");
  if (result) result->body = answer;
  return ToBody(what, socket_path_, result);
}

absl::StatusOr<std::string> EngineClient::Get(const std::string& what, const std::string& path,
                                              Clock::time_point until) const {
  return Send(what, "GET", path, "", until);
}

absl::StatusOr<std::string> EngineClient::Post(const std::string& what, const std::string& path,
                                               const nlohmann::json& body, Clock::time_point until) const {
  const std::string text = body.is_null() ? "" : body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return Send(what, "POST", path, text, until);
}

absl::Status EngineClient::Delete(const std::string& what, const std::string& path, Clock::time_point until) const {
  return Send(what, "DELETE", path, "", until).status();
}

absl::StatusOr<nlohmann::json> ParseEngineJson(const std::string& what, const std::string& text) {
  nlohmann::json parsed = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_object()) return Internal("{}: the container engine's answer is not a JSON object", what);
  return parsed;
}

absl::StatusOr<nlohmann::json> ParseEngineList(const std::string& what, const std::string& text) {
  nlohmann::json parsed = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  const auto is_object = [](const nlohmann::json& each) { return each.is_object(); };
  if (parsed.is_array() && std::all_of(parsed.begin(), parsed.end(), is_object)) return parsed;
  return Internal("{}: the container engine's answer is not a list of JSON objects", what);
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
