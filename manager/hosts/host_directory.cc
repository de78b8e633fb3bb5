#include "manager/hosts/host_directory.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>

#include "base/status.h"
#include "base/text/quote.h"
#include "base/text/terminal_text.h"

namespace mooring::manager {

const HostStatus* FindHost(const std::vector<HostStatus>& hosts, const std::string& name) {
  const auto found =
      std::find_if(hosts.begin(), hosts.end(), [&](const HostStatus& status) { return status.host.name == name; });
  return found == hosts.end() ? nullptr : &*found;
}

absl::Status CheckTakesClaims(const std::vector<HostStatus>& hosts, const std::string& node) {
  const HostStatus* const status = FindHost(hosts, node);
  if (status == nullptr) {
    return InvalidArgument("node {} is none of the hosts that share this state ('mooring host list' shows them)",
                           Quote(node));
  }
  if (!status->alive) return Unavailable("host {} is {}", Quote(node), Absence(hosts, node));
  if (status->host.gave_up_claims) {
    return Unavailable(
        "host {} was away, others have freed claims of it, and it does not know yet which: try again in a moment",
        Quote(node));
  }
  if (status->host.draining) {
    return FailedPrecondition(
        "host {} is being drained, and takes no new claims: use another host, or end it with 'mooring host drain {} "
        "--undo'",
        Quote(node), ShellQuote(node));
  }
  return absl::OkStatus();
}

std::string StateWord(const HostStatus& status) {
  if (status.host.lost && !status.alive) return "lost";
  if (!status.alive) return "unreachable";
  return status.host.draining ? "draining" : "alive";
}

std::string Absence(const std::vector<HostStatus>& hosts, const std::string& node) {
  const HostStatus* const status = FindHost(hosts, node);
  if (status == nullptr || status->alive) return "";
  if (!status->host.away_since) return StateWord(*status);
  return fmt::format("{} since {:%FT%TZ}", StateWord(*status),
                     fmt::gmtime(std::chrono::system_clock::to_time_t(*status->host.away_since)));
}

}  // namespace mooring::manager
