// Hosts that share the state of the manager.
#include <fmt/format.h>

#include "base/status.h"
#include "base/text/terminal_text.h"
#include "cli/manager/command.h"
#include "cli/manager/host_filter.h"
#include "cli/manager/show.h"
#include "cli/output/table.h"

namespace mooring::cli::manager_area {
namespace {

std::string Names(const v1::ListHostsResponse& response) {
  std::string names;
  for (const v1::HostStatus& status : response.hosts()) names += Visible(status.host().name()) + "\n";
  return names;
}

absl::Status ListHosts(Session& session) {
  MOORING_ASSIGN_OR_RETURN(const auto response, session.Call(&Manager::Stub::ListHosts, v1::ListHostsRequest()));
  Table table({"HOST", "STATE", "CLAIMS", "AWAY SINCE", "VERSION", ""});
  for (const v1::HostStatus& status : response.hosts()) {
    const v1::Host& host = status.host();
    table.Add({host.name(), status.state(), std::to_string(status.claims()), TimeText(host.away_since_ms()),
               host.version(), status.self() ? "this host" : ""});
  }
  return session.Show(response, session.arguments.quiet ? Names(response) : table.ToString());
}

std::string StatusText(const v1::HostStatus& status) {
  Details details;
  details.Add("host", status.host().name() + (status.self() ? " (this host)" : ""));
  details.Add("state", status.state());
  details.AddIf("away since", TimeText(status.host().away_since_ms()));
  details.AddIf("joined", TimeText(status.host().joined_at_ms()));
  details.AddIf("version", status.host().version());
  details.Add("claims", std::to_string(status.claims()));
  return details.ToString();
}

absl::Status HostStatus(Session& session) {
  v1::ListHostsRequest request;
  request.set_name(session.arguments.host);
  MOORING_ASSIGN_OR_RETURN(const auto response, session.Call(&Manager::Stub::ListHosts, request));
  std::string text = StatusText(response.hosts(0));
  if (!session.arguments.json && response.hosts(0).claims() > 0) {
    MOORING_ASSIGN_OR_RETURN(auto claims, session.Call(&Manager::Stub::ListClaims, v1::ListClaimsRequest()));
    const HostFilter filter(session.arguments.host);
    filter.Narrow(*claims.mutable_claims());
    text += "\n" + ClaimTable(claims.claims());
  }
  return session.Show(response, text);
}

absl::Status DrainHost(Session& session) {
  v1::DrainHostRequest request;
  request.set_name(session.arguments.host);
  request.set_undo(session.arguments.undo);
  MOORING_ASSIGN_OR_RETURN(const auto response, session.Call(&Manager::Stub::DrainHost, request));
  const std::string name = Visible(request.name());
  std::string text =
      request.undo() ? fmt::format("{} takes new claims again\n", name) : fmt::format("{} takes no new claims\n", name);
  if (!request.undo() && !response.claims().empty()) {
    text += fmt::format("It still holds these; end their tasks to free them:\n{}", ClaimTable(response.claims()));
  }
  return session.Show(response, text);
}

absl::Status LoseHost(Session& session) {
  v1::DeclareHostLostRequest request;
  request.set_name(session.arguments.host);
  MOORING_ASSIGN_OR_RETURN(const auto response, session.Call(&Manager::Stub::DeclareHostLost, request));
  std::string text = fmt::format("{} is lost: its claims exclude nobody any more\n", Visible(request.name()));
  if (!response.claims().empty()) text += ClaimTable(response.claims());
  return session.Show(response, text);
}

}  // namespace

Commands HostCommands() {
  return {
      {"list", "List the hosts, and whether they are alive", {}, {&kQuiet}, ListHosts},
      {"status", "Show a host and its claims", {&kHost}, {}, HostStatus},
      {"drain", "Let a host take no new claims", {&kHost}, {&kUndo}, DrainHost},
      {"lost",
       "Declare that nothing runs on an unreachable host any more, and free its claims",
       {&kHost},
       {},
       LoseHost,
       "Be sure that the host is turned off, or at least that no task on it writes: the claims keep two\n"
       "hosts from writing to a volume at the same time. The command is refused while the host is alive."},
  };
}

}  // namespace mooring::cli::manager_area
