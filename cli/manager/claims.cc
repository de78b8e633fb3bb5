// Claims of volumes.
#include <fmt/format.h>

#include "base/status.h"
#include "base/text/terminal_text.h"
#include "cli/manager/command.h"
#include "cli/manager/host_filter.h"
#include "cli/manager/parse/volume_spec.h"
#include "cli/manager/show.h"

namespace mooring::cli::manager_area {
namespace {

std::string ClaimText(const v1::Claim& claim) {
  Details details;
  details.Add("volume", ToString(claim.volume()));
  details.Add("allocation", claim.allocation());
  details.Add("mode", ToString(claim.mode()));
  details.Add("access", ToString(claim.capability()));
  details.Add("node", claim.node());
  details.AddIf("external node", claim.external_node_id());
  details.AddIf("publish context", ToString(claim.publish_context()));
  return details.ToString();
}

absl::Status Claim(Session& session) {
  const Arguments& arguments = session.arguments;
  v1::ClaimVolumeRequest request;
  *request.mutable_volume() = KeyOf(arguments);
  request.set_allocation(arguments.allocation);
  request.set_external_node_id(arguments.external_node);
  MOORING_ASSIGN_OR_RETURN(const v1::ClaimMode mode, ParseClaimMode(arguments.mode));
  request.set_mode(mode);
  MOORING_ASSIGN_OR_RETURN(const auto capability, CapabilityOf(arguments));
  if (capability) *request.mutable_capability() = *capability;
  if (NamesJob(arguments)) FillJob(arguments, *request.mutable_job());
  MOORING_ASSIGN_OR_RETURN(const auto response, session.Call(&Manager::Stub::ClaimVolume, request));
  return session.Show(response, ClaimText(response.claim()));
}

std::string ReleaseText(const v1::ReleaseVolumeRequest& request, const v1::ReleaseVolumeResponse& response) {
  const std::string volume = Visible(ToString(request.volume()));
  if (response.owed().empty()) return fmt::format("released {}\n", volume);
  return fmt::format("{} is released as soon as the plugin has undone these claims:\n{}", volume,
                     ClaimTable(response.owed()));
}

absl::Status Release(Session& session) {
  const Arguments& arguments = session.arguments;
  if (arguments.allocation.empty() && !arguments.force) {
    return InvalidArgument("no allocation is named: give --for ALLOCATION");
  }
  v1::ReleaseVolumeRequest request;
  *request.mutable_volume() = KeyOf(arguments);
  request.set_allocation(arguments.allocation);
  MOORING_ASSIGN_OR_RETURN(const v1::ClaimMode mode, ParseClaimMode(arguments.mode));
  request.set_mode(mode);
  request.set_force(arguments.force);
  request.set_must_exist(!arguments.if_exists);
  MOORING_ASSIGN_OR_RETURN(const auto response, session.Call(&Manager::Stub::ReleaseVolume, request));
  return session.Show(response, ReleaseText(request, response));
}

// Whether another allocation can claim the volume, and if not, why.
absl::StatusOr<std::string> OutlookText(const Session& session, const v1::VolumeKey& key) {
  v1::GetVolumeRequest request;
  *request.mutable_key() = key;
  MOORING_ASSIGN_OR_RETURN(const auto response, session.Call(&Manager::Stub::GetVolume, request));
  Details details;
  const v1::Volume& volume = response.volume();
  details.Add("in use", volume.has_in_use() ? ToString(volume.in_use()) : "no");
  details.Add("schedulable", response.schedulable() ? "yes" : "no: " + response.unschedulable());
  return "\n" + details.ToString();
}

absl::Status ListClaims(Session& session) {
  const Arguments& arguments = session.arguments;
  v1::ListClaimsRequest request;
  if (!arguments.id.empty()) *request.mutable_volume() = KeyOf(arguments);
  request.set_allocation(arguments.allocation);
  MOORING_ASSIGN_OR_RETURN(auto response, session.Call(&Manager::Stub::ListClaims, request));
  MOORING_RETURN_IF_ERROR(CheckHost(session, arguments.host));
  if (response.claims().empty()) MOORING_RETURN_IF_ERROR(CheckVolume(session, request.volume()));
  HostFilter(arguments.host).Narrow(*response.mutable_claims());
  std::string text = ClaimTable(response.claims());
  if (!arguments.id.empty() && !arguments.json) {
    MOORING_ASSIGN_OR_RETURN(const std::string outlook, OutlookText(session, request.volume()));
    text += outlook;
  }
  return session.Show(response, text);
}

absl::Status Gone(Session& session) {
  v1::AllocationGoneRequest request;
  request.set_allocation(session.arguments.allocation);
  request.set_must_exist(!session.arguments.if_exists);
  MOORING_ASSIGN_OR_RETURN(const auto response, session.Call(&Manager::Stub::AllocationGone, request));
  return session.Show(response, fmt::format("{} is gone; claims that are released in 5 minutes: {}\n",
                                            Visible(request.allocation()), response.claims()));
}

}  // namespace

Commands ClaimCommands() {
  return {
      {"claim",
       "Claim a volume for an allocation, without attaching it",
       {&Shared::kVolumeId, &kFor, &kClaimMode},
       AllOf<Arguments>({{&kNamespace, &kAccess, &Shared::kBlock, &kExternalNode}, kJobFlags}),
       Claim,
       "Example:\n  mooring claim db --for web-1 --mode write"},
      {"release",
       "Release a claim",
       {&Shared::kVolumeId},
       {&kFor, &kNamespace, &kReleaseMode, &kPerAlloc, &kForce, &kIfExists},
       Release},
      {"claims", "List the claims", {}, {&kOfVolume, &kNamespace, &kOfAllocation, &kOfHost}, ListClaims},
      {"gone",
       "Report that an allocation has ended; its claims are released in 5 minutes",
       {&kAllocation},
       {&kIfExists},
       Gone},
  };
}

}  // namespace mooring::cli::manager_area
