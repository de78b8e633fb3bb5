// Reads an HTTP/1 request, RFC 9112, with limits.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace mooring::http {

struct Request {
  std::string method;  // "GET", as the client wrote it
  std::string path;    // without the query
  std::string body;
  // Whether the client has closed its connection, so that nobody reads the answer. A client that has only ended its
  // side (shutdown(2)) still waits. Over TCP the two look alike, so it says false. Safe from any thread.
  std::function<bool()> is_abandoned = [] { return false; };
  pid_t caller = 0;  // the process that connected; 0: over TCP, or in a PID namespace that is not seen here
};

struct Response {
  int status = 200;
  std::string type;  // of the content
  std::string body;
};

// A request that no handler sees.
struct Refusal {
  int status = 0;
  std::string words;
};

struct RequestLimits {
  std::size_t head, body;  // bytes
};

// `received` is everything that the client has sent. nullopt: the request is not complete. A refusal never waits for
// more input than it needs: a body that is too long is refused by its Content-Length.
std::optional<std::variant<Request, Refusal>> ReadRequest(std::string_view received, const RequestLimits& limits);

// The answer as it goes over the socket. It ends the connection.
std::string ToBytes(const Response& response);

}  // namespace mooring::http
