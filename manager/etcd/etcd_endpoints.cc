#include "manager/etcd/etcd_endpoints.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <string_view>

#include "absl/strings/str_split.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "base/text/whole_number.h"

namespace mooring::manager {
namespace {

constexpr std::string_view kScheme = "etcd://";
constexpr std::string_view kUnix = "unix:";

// A host name, an IPv4 address, or an IPv6 address in brackets; then a port.
bool HasHostAndPort(const std::string& member) {
  const std::size_t colon = member.rfind(':');
  if (colon == std::string::npos || colon == 0) return false;
  const std::string host = member.substr(0, colon);
  const bool is_v6 = host.size() > 2 && host.front() == '[' && host.back() == ']';
  const std::string_view inner = is_v6 ? std::string_view(host).substr(1, host.size() - 2) : std::string_view(host);
  const bool plain = std::all_of(inner.begin(), inner.end(), [is_v6](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '.' || c == '_' || (is_v6 && (c == ':' || c == '%'));
  });
  return plain && ParseWhole<std::uint16_t>(member.substr(colon + 1)).value_or(0) != 0;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ParseEtcdEndpoints(const std::string& endpoints) {
  if (!endpoints.starts_with(kScheme) || endpoints.size() == kScheme.size()) {
    return InvalidArgument("the endpoints of etcd {} must have the form etcd://host1:2379,host2:2379",
                           Quote(endpoints));
  }
  const std::vector<std::string> members = absl::StrSplit(endpoints.substr(kScheme.size()), ',');
  for (const std::string& member : members) {
    if (member.starts_with(kUnix)) continue;
    if (!HasHostAndPort(member)) {
      return InvalidArgument("the endpoint of etcd {} must have the form host:port or unix:/path", Quote(member));
    }
  }
  return members;
}

bool StaysOnHost(const std::string& member) {
  return member.starts_with(kUnix) || member.starts_with("127.") || member.starts_with("[::1]:") ||
         member.starts_with("localhost:");
}

}  // namespace mooring::manager
