#include <algorithm>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/text/quote.h"
#include "base/version.h"
#include "manager/api/handlers.h"
#include "manager/hosts/host_directory.h"
#include "manager/records/field_copier.h"
#include "manager/records/record_codec.h"
#include "manager/state/keys.h"

namespace mooring::manager {
namespace {

v1::HostStatus Described(const HostStatus& status, const std::string& self, const std::vector<Claim>& claims) {
  v1::HostStatus described;
  *described.mutable_host() = ToProto(status.host);
  described.set_alive(status.alive);
  described.set_state(StateWord(status));
  described.set_self(status.host.name == self);
  described.set_claims(static_cast<int>(std::count_if(claims.begin(), claims.end(), [&](const Claim& claim) {
    return claim.node == status.host.name && !claim.lost;
  })));
  return described;
}

// Fills in the host and its claims.
template <typename Response>
absl::StatusOr<Response> WithClaims(const HostStatus& status, const std::string& self, RecordsStore& store) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<Claim> claims, store.ListClaims());
  Response response;
  *response.mutable_host() = Described(status, self, claims);
  for (const Claim& claim : claims) {
    if (claim.node == status.host.name) *response.add_claims() = ToProto(claim);
  }
  return response;
}

}  // namespace

absl::StatusOr<v1::ListHostsResponse> HostHandlers::ListHosts(const v1::ListHostsRequest& request) {
  MOORING_RETURN_IF_ERROR(hosts.Refresh());
  MOORING_ASSIGN_OR_RETURN(const std::vector<Claim> claims, store.ListClaims());
  v1::ListHostsResponse response;
  for (const HostStatus& status : hosts.List()) {
    if (!request.name().empty() && request.name() != status.host.name) continue;
    *response.add_hosts() = Described(status, hosts.self(), claims);
  }
  if (response.hosts().empty() && !request.name().empty()) {
    MOORING_RETURN_IF_ERROR(store.GetHost(request.name()).status());
    return NotFound("there is no host {}", Quote(request.name()));
  }
  return response;
}

absl::StatusOr<v1::DrainHostResponse> HostHandlers::DrainHost(const v1::DrainHostRequest& request) {
  MOORING_RETURN_IF_ERROR(CheckName("the host", request.name()));
  MOORING_ASSIGN_OR_RETURN(const HostStatus status, hosts.Drain(request.name(), !request.undo()));
  return WithClaims<v1::DrainHostResponse>(status, hosts.self(), store);
}

// The caller goes on as soon as this is answered, so the claims are given up before.
absl::StatusOr<v1::DeclareHostLostResponse> HostHandlers::DeclareHostLost(const v1::DeclareHostLostRequest& request,
                                                                          const ApiCall& call) {
  MOORING_RETURN_IF_ERROR(CheckName("the host", request.name()));
  MOORING_ASSIGN_OR_RETURN(const HostStatus status, hosts.DeclareLost(request.name()));
  MOORING_RETURN_IF_ERROR(recover(request.name(), call.until));
  return WithClaims<v1::DeclareHostLostResponse>(status, hosts.self(), store);
}

absl::StatusOr<v1::GetManagerInfoResponse> InfoHandlers::GetManagerInfo(
    const v1::GetManagerInfoRequest& /*request*/) const {
  v1::GetManagerInfoResponse info;
  info.set_version(Version());
  info.set_host(host);
  info.set_root(root);
  info.set_started_at_ms(ToMs(started_at));
  info.set_restoring(attachments.restoring());
  for (const OwedWork& owed : work.List()) {
    v1::OwedWork& one = *info.add_owed();
    one.set_kind(owed.kind);
    one.set_what(owed.key);
    one.set_plugin(owed.plugin);
    one.set_since_ms(ToMs(owed.since));
    one.set_tries(owed.tries);
    one.set_problem(owed.problem);
    if (owed.next_try) {
      one.set_next_try_ms(std::chrono::duration_cast<std::chrono::milliseconds>(*owed.next_try).count());
    }
  }
  return info;
}

}  // namespace mooring::manager
