#include "http/request.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

namespace mooring::http {
namespace {

struct Status {
  int code;
  const char* reason;
};
constexpr std::array kStatuses = {
    Status{200, "OK"},
    Status{400, "Bad Request"},
    Status{404, "Not Found"},
    Status{411, "Length Required"},
    Status{413, "Content Too Large"},
    Status{431, "Request Header Fields Too Large"},
    Status{500, "Internal Server Error"},
    Status{503, "Service Unavailable"},
};

const char* ReasonOf(int code) {
  const auto* found = std::find_if(kStatuses.begin(), kStatuses.end(), [&](const Status& s) { return s.code == code; });
  return found == kStatuses.end() ? "" : found->reason;
}

// The bytes of the head, with the empty line at its end. 0: it is not complete.
std::size_t SizeOfHead(std::string_view received) {
  const std::size_t crlf = received.find("\r\n\r\n"), lf = received.find("\n\n");
  if (crlf == std::string_view::npos && lf == std::string_view::npos) return 0;
  return crlf < lf ? crlf + 4 : lf + 2;
}

// Cuts the first line from `text`.
std::string_view CutLine(std::string_view& text) {
  const std::size_t end = text.find('\n');
  std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

std::string_view Trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

bool IsName(std::string_view text, std::string_view lower_case) {
  return std::equal(text.begin(), text.end(), lower_case.begin(), lower_case.end(),
                    [](char a, char b) { return std::tolower(static_cast<unsigned char>(a)) == b; });
}

// "POST /path?query HTTP/1.1"
bool ParseLine(std::string_view line, Request& request) {
  const std::size_t first = line.find(' ');
  const std::size_t second = first == std::string_view::npos ? first : line.find(' ', first + 1);
  if (first == 0 || second == std::string_view::npos || !line.substr(second + 1).starts_with("HTTP/1.")) return false;
  const std::string_view target = line.substr(first + 1, second - first - 1);
  request.method = line.substr(0, first);
  request.path = target.substr(0, target.find('?'));
  return true;
}

bool ParseLength(std::string_view text, std::optional<std::size_t>& length) {
  std::size_t parsed = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), parsed);
  if (error == std::errc::result_out_of_range) parsed = std::string_view::npos;  // longer than any limit
  if (text.empty() || end != text.data() + text.size() || error == std::errc::invalid_argument) return false;
  if (length && *length != parsed) return false;
  length = parsed;
  return true;
}

// nullopt: all fields are understood, and `length` is that of the body.
std::optional<Refusal> ParseFields(std::string_view fields, std::size_t& length) {
  std::optional<std::size_t> told;
  while (!fields.empty()) {
    const std::string_view line = CutLine(fields);
    if (line.empty()) break;
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) return Refusal{400, "a header field has no colon"};
    const std::string_view name = line.substr(0, colon), value = Trimmed(line.substr(colon + 1));
    if (IsName(name, "transfer-encoding")) return Refusal{411, "the request does not tell the length of its body"};
    if (IsName(name, "content-length") && !ParseLength(value, told)) {
      return Refusal{400, "its Content-Length is not a number"};
    }
  }
  length = told.value_or(0);
  return std::nullopt;
}

}  // namespace

std::optional<std::variant<Request, Refusal>> ReadRequest(std::string_view received, const RequestLimits& limits) {
  const std::size_t head = SizeOfHead(received);
  if (head > limits.head || (head == 0 && received.size() > limits.head)) {
    return Refusal{431, fmt::format("the request is too long: its header fields have more than {} bytes", limits.head)};
  }
  if (head == 0) return std::nullopt;
  std::string_view fields = received.substr(0, head);
  Request request;
  if (!ParseLine(CutLine(fields), request)) return Refusal{400, "this is no HTTP request"};
  std::size_t length = 0;
  if (std::optional<Refusal> refusal = ParseFields(fields, length)) return *std::move(refusal);
  if (length > limits.body) {
    return Refusal{413, fmt::format("the request is refused: its body is longer than {} bytes", limits.body)};
  }
  if (received.size() - head < length) return std::nullopt;
  request.body = received.substr(head, length);
  return request;
}

std::string ToBytes(const Response& response) {
  return fmt::format("HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{}",
                     response.status, ReasonOf(response.status), response.type, response.body.size(), response.body);
}

}  // namespace mooring::http
