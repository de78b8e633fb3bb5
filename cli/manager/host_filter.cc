#include "cli/manager/host_filter.h"

#include "base/status.h"
#include "cli/manager/show.h"

namespace mooring::cli::manager_area {
namespace {

std::string NameOf(const v1::Claim& claim) { return ToString(claim.mode()) + " " + claim.allocation(); }

}  // namespace

bool IsReachableOnlyFrom(const v1::Volume& volume, const std::string& host) {
  const auto names_host = [&](const v1::Topology& topology) {
    return std::any_of(topology.segments().begin(), topology.segments().end(),
                       [&](const auto& segment) { return segment.second == host; });
  };
  return !volume.topologies().empty() &&
         std::all_of(volume.topologies().begin(), volume.topologies().end(), names_host);
}

absl::StatusOr<HostFilter> HostFilter::Make(const Session& session, const std::string& host) {
  HostFilter filter(host);
  if (host.empty()) return filter;
  MOORING_ASSIGN_OR_RETURN(const auto claims, session.Call(&Manager::Stub::ListClaims, v1::ListClaimsRequest()));
  for (const v1::Claim& claim : claims.claims()) filter.Note(claim);
  return filter;
}

bool HostFilter::Has(const v1::Volume& volume) const {
  return host_.empty() || claims_.contains(ToString(volume.key())) || IsReachableOnlyFrom(volume, host_);
}

// A commit that takes or frees a claim may also change its volume, in any order: the volume passes in both cases.
v1::WatchReply HostFilter::Narrowed(const v1::WatchReply& reply) {
  if (host_.empty()) return reply;
  v1::WatchReply narrowed;
  narrowed.set_revision(reply.revision());
  for (const auto& change : reply.changes()) {
    if (change.has_claim() && !change.deleted()) Note(change.claim());
  }
  for (const auto& change : reply.changes()) {
    if (Passes(change)) *narrowed.add_changes() = change;
  }
  for (const auto& change : reply.changes()) {
    if (change.has_claim() && change.deleted()) Forget(change.claim());
  }
  return narrowed;
}

bool HostFilter::Passes(const v1::WatchReply::Changed& change) {
  if (change.has_claim()) return Has(change.claim());
  const std::string name = ToString(change.volume().key());
  if (change.deleted()) return shown_.erase(name) > 0;  // this change has only the key of the volume
  const bool passes = Has(change.volume());
  if (passes) shown_.insert(name);
  return passes;
}

void HostFilter::Note(const v1::Claim& claim) {
  if (claim.node() == host_) claims_[ToString(claim.volume())].insert(NameOf(claim));
}

void HostFilter::Forget(const v1::Claim& claim) {
  const auto of_volume = claims_.find(ToString(claim.volume()));
  if (claim.node() != host_ || of_volume == claims_.end()) return;
  of_volume->second.erase(NameOf(claim));
  if (of_volume->second.empty()) claims_.erase(of_volume);
}

absl::Status CheckVolume(const Session& session, const v1::VolumeKey& key) {
  if (key.id().empty()) return absl::OkStatus();
  v1::GetVolumeRequest request;
  *request.mutable_key() = key;
  return session.Call(&Manager::Stub::GetVolume, request).status();
}

absl::Status CheckPlugin(const Session& session, const std::string& name) {
  if (name.empty()) return absl::OkStatus();
  v1::ListPluginsRequest request;
  request.set_name(name);
  return session.Call(&Manager::Stub::ListPlugins, request).status();
}

absl::Status CheckHost(const Session& session, const std::string& name) {
  if (name.empty()) return absl::OkStatus();
  v1::ListHostsRequest request;
  request.set_name(name);
  return session.Call(&Manager::Stub::ListHosts, request).status();
}

}  // namespace mooring::cli::manager_area
