// The HTTP/1 requests that the server takes, and the refusals of all others.
#include <fmt/format.h>

#include "http/request.h"
#include "tests/unit/unit_test.h"

namespace mooring::testing {
namespace {

constexpr http::RequestLimits kLimits = {.head = 100, .body = 20};

// "incomplete", "METHOD PATH BODY" or "STATUS".
std::string Read(const std::string& received) {
  const auto read = http::ReadRequest(received, kLimits);
  if (!read) return "incomplete";
  if (const auto* refusal = std::get_if<http::Refusal>(&*read)) return std::to_string(refusal->status);
  const auto& request = std::get<http::Request>(*read);
  return request.method + " " + request.path + " " + request.body;
}

TEST(HttpRequest, IsReadToTheEndOfItsBody) {
  const std::string whole = "POST /a HTTP/1.1\r\nHost: d\r\ncontent-LENGTH:  5 \r\n\r\nhello";
  for (std::size_t size = 0; size < whole.size(); ++size) EXPECT_EQ(Read(whole.substr(0, size)), "incomplete") << size;
  EXPECT_EQ(Read(whole), "POST /a hello");
  EXPECT_EQ(Read(whole + "POST /b"), "POST /a hello") << "what follows is not its body";
}

TEST(HttpRequest, HasTheseForms) {
  const std::vector<std::pair<std::string, std::string>> rows = {
      {"GET /a?b=c HTTP/1.0\n\n", "GET /a "},
      {"GET /a HTTP/1.1\r\nx: \r\n\r\n", "GET /a "},
      {"POST /a HTTP/1.1\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nhi", "POST /a hi"},
      {"POST /a HTTP/1.1\r\nContent-Length: 20\r\n\r\n", "incomplete"},
      {"\r\n\r\n", "400"},
      {"GET /a\r\n\r\n", "400"},
      {" /a HTTP/1.1\r\n\r\n", "400"},
      {"GET /a HTTP/2\r\n\r\n", "400"},
      {"GET /a HTTP/1.1\r\nno colon\r\n\r\n", "400"},
      {"POST /a HTTP/1.1\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nhi", "400"},
      {"POST /a HTTP/1.1\r\nContent-Length:\r\n\r\n", "400"},
      {"POST /a HTTP/1.1\r\nContent-Length: -1\r\n\r\n", "400"},
      {"POST /a HTTP/1.1\r\nContent-Length: 0x2\r\n\r\nhi", "400"},
      {"POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "411"},
      {"POST /a HTTP/1.1\r\nContent-Length: 21\r\n\r\n", "413"},
      {"POST /a HTTP/1.1\r\nContent-Length: 99999999999999999999999\r\n\r\n", "413"},
      {std::string(100, 'x'), "incomplete"},
      {std::string(101, 'x'), "431"},
      {"GET /" + std::string(100, 'x') + " HTTP/1.1\r\n\r\n", "431"},
  };
  for (const auto& [received, expected] : rows) EXPECT_EQ(Read(received), expected) << received;
}

}  // namespace
}  // namespace mooring::testing
