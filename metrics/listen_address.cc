#include "metrics/listen_address.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <utility>

#include "base/file/path.h"
#include "base/socket_path.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "base/text/whole_number.h"

namespace mooring::metrics {
namespace {

constexpr std::string_view kForms =
    "write 127.0.0.1:PORT, [::1]:PORT, :PORT (all addresses) or unix:/path/metrics.sock";

absl::Status NoAddress(std::string_view text) {
  return InvalidArgument("{} is no address to serve metrics at: {}", Quote(text), kForms);
}

bool IsAddress(int family, const std::string& text) {
  in6_addr parsed = {};  // larger than an in_addr
  return ::inet_pton(family, text.c_str(), &parsed) == 1;
}

// "[::1]" -> "::1". Host names are refused, because they would need DNS.
std::optional<std::string> ParseIp(std::string_view text) {
  if (text.empty()) return std::string();
  if (text.size() > 2 && text.front() == '[' && text.back() == ']') {
    std::string inner(text.substr(1, text.size() - 2));
    return IsAddress(AF_INET6, inner) ? std::optional(std::move(inner)) : std::nullopt;
  }
  std::string ip(text);
  return IsAddress(AF_INET, ip) ? std::optional(std::move(ip)) : std::nullopt;
}

}  // namespace

absl::StatusOr<ListenAddress> ParseListenAddress(std::string_view text) {
  ListenAddress address;
  if (text.starts_with("unix:")) {
    MOORING_ASSIGN_OR_RETURN(const std::string path, ParseSocketPath(text));
    MOORING_ASSIGN_OR_RETURN(address.socket_path, NormalisePath("the path", path));
    return address;
  }
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return NoAddress(text);
  const std::optional<std::string> ip = ParseIp(text.substr(0, colon));
  const std::optional<std::uint16_t> port = ParseWhole<std::uint16_t>(text.substr(colon + 1));
  if (!ip || !port) return NoAddress(text);
  address.ip = *ip;
  address.port = *port;
  return address;
}

absl::StatusOr<std::optional<ListenAddress>> ParseListenFlag(std::string_view text) {
  if (text.empty()) return std::optional<ListenAddress>();
  const absl::StatusOr<ListenAddress> address = ParseListenAddress(text);
  if (!address.ok()) return Annotate(address.status(), "--metrics-listen");
  return std::optional(*address);
}

std::string ToString(const ListenAddress& address) {
  if (!address.socket_path.empty()) return "unix:" + address.socket_path;
  const bool is_v6 = address.ip.find(':') != std::string::npos;
  return fmt::format(fmt::runtime(is_v6 ? "[{}]:{}" : "{}:{}"), address.ip, address.port);
}

}  // namespace mooring::metrics
