#include "manager/etcd/etcd_endpoints.h"

#include <string_view>

#include "absl/strings/str_split.h"
#include "base/status.h"
#include "base/text/quote.h"

namespace mooring::manager {
namespace {

constexpr std::string_view kScheme = "etcd://";
constexpr std::string_view kUnix = "unix:";

}  // namespace

absl::StatusOr<std::vector<std::string>> ParseEtcdEndpoints(const std::string& endpoints) {
  if (!endpoints.starts_with(kScheme) || endpoints.size() == kScheme.size()) {
    return InvalidArgument("the endpoints of etcd {} must have the form etcd://host1:2379,host2:2379",
                           Quote(endpoints));
  }
  const std::vector<std::string> members = absl::StrSplit(endpoints.substr(kScheme.size()), ',');
  for (const std::string& member : members) {
    if (member.starts_with(kUnix)) continue;
    const std::size_t colon = member.rfind(':');
    const bool has_port = colon != std::string::npos && colon > 0 && colon + 1 < member.size() &&
                          member.find_first_not_of("0123456789", colon + 1) == std::string::npos;
    if (!has_port || member.find('/') != std::string::npos) {
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
