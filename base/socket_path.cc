#include "base/socket_path.h"

#include <fmt/format.h>
#include <sys/un.h>

#include "base/status.h"
#include "base/text/quote.h"

namespace mooring {
namespace {

constexpr std::size_t kLongestPath = sizeof(sockaddr_un::sun_path) - 1;
constexpr std::string_view kScheme = "unix:";
constexpr std::string_view kForms = "write unix:///path/csi.sock, or the path itself";

// The path after "unix:". Two slashes begin the authority of a URI. A local socket has no authority, so the text after
// them is the path.
std::string PathOf(std::string_view rest) {
  if (!rest.starts_with("//")) return std::string(rest);
  rest.remove_prefix(2);
  return rest.empty() || rest[0] == '/' ? std::string(rest) : fmt::format("/{}", rest);
}

bool NamesAnotherScheme(std::string_view endpoint) {
  return endpoint.find("://") != std::string_view::npos || endpoint.starts_with("unix-abstract:") ||
         endpoint.starts_with("tcp:") || endpoint.starts_with("dns:");
}

}  // namespace

absl::StatusOr<std::string> ParseSocketPath(std::string_view endpoint) {
  const bool unix_scheme = endpoint.starts_with(kScheme);
  if (!unix_scheme && NamesAnotherScheme(endpoint)) {
    return InvalidArgument("the endpoint {} is not a Unix socket: {}", Quote(endpoint), kForms);
  }
  std::string path = unix_scheme ? PathOf(endpoint.substr(kScheme.size())) : std::string(endpoint);
  if (path.empty()) return InvalidArgument("the endpoint names no socket: {}", kForms);
  if (path.size() > kLongestPath) {
    return InvalidArgument(
        "the socket path {} has {} bytes, and the limit of a socket address is {}: choose a shorter path", Quote(path),
        path.size(), kLongestPath);
  }
  return path;
}

std::string GrpcTarget(std::string_view socket_path) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/";
  std::string target(kScheme);
  for (const char c : socket_path) {
    if (kPlain.find(c) != std::string_view::npos) {
      target += c;
    } else {
      target += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return target;
}

}  // namespace mooring
