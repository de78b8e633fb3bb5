#include <algorithm>
#include <string>
#include <vector>

#include "base/status.h"
#include "manager/api/answers.h"
#include "manager/api/handlers.h"
#include "manager/api/requests.h"
#include "manager/records/names.h"
#include "manager/records/record_codec.h"
#include "manager/state/keys.h"

namespace mooring::manager {
namespace {

bool IsOf(const Claim& claim, const std::string& allocation) {
  return allocation.empty() || claim.allocation == allocation;
}

std::vector<ClaimMode> ModesOf(const v1::ReleaseVolumeRequest& request) {
  if (request.mode() == v1::READ) return {ClaimMode::kRead};
  if (request.mode() == v1::WRITE) return {ClaimMode::kWrite};
  return {ClaimMode::kRead, ClaimMode::kWrite};
}

bool IsAttached(const Parts& parts, const Claim& claim) {
  const std::vector<AttachmentRecord> records = parts.journal->Of(claim.volume);
  return std::any_of(records.begin(), records.end(),
                     [&](const AttachmentRecord& record) { return record.allocation == claim.allocation; });
}

absl::Status ReleaseAll(Parts& parts, const VolumeKey& key, const v1::ReleaseVolumeRequest& request,
                        const ApiCall& call) {
  const auto is_mounted = [&](const Claim& claim) { return IsAttached(parts, claim); };
  if (request.force()) return parts.claims->Force(key, is_mounted, call.until);
  MOORING_RETURN_IF_ERROR(CheckName("the allocation", request.allocation()));
  for (const ClaimMode mode : ModesOf(request)) {
    MOORING_RETURN_IF_ERROR(parts.attachments->Release(key, mode, request.allocation(), call.until));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<v1::ClaimVolumeResponse> ClaimVolume(Parts& parts, const v1::ClaimVolumeRequest& request,
                                                    const ApiCall& call) {
  MOORING_ASSIGN_OR_RETURN(const VolumeKey key, KeyOf(request.volume()));
  MOORING_ASSIGN_OR_RETURN(const Volume volume, parts.volumes->Get(key));
  MOORING_ASSIGN_OR_RETURN(ClaimRequest claim, ParseClaim(request, volume, parts.config.host));
  claim.keep = true;
  MOORING_ASSIGN_OR_RETURN(const ClaimAnswer answer, parts.claims->Claim(claim, call.until));
  v1::ClaimVolumeResponse response;
  *response.mutable_volume() = Shown(answer.volume);
  *response.mutable_claim() = ToProto(answer.claim);
  return response;
}

absl::StatusOr<v1::ReleaseVolumeResponse> ReleaseVolume(Parts& parts, const v1::ReleaseVolumeRequest& request,
                                                        const ApiCall& call) {
  MOORING_ASSIGN_OR_RETURN(const VolumeKey key, KeyOf(request.volume()));
  MOORING_RETURN_IF_ERROR(ReleaseAll(parts, key, request, call));
  MOORING_ASSIGN_OR_RETURN(const std::vector<Claim> left, parts.store.ListClaims(key));
  const std::vector<ClaimMode> modes = ModesOf(request);
  v1::ReleaseVolumeResponse response;
  for (const Claim& claim : left) {
    if (!IsOf(claim, request.allocation())) continue;
    if (std::find(modes.begin(), modes.end(), claim.mode) != modes.end()) *response.add_owed() = ToProto(claim);
  }
  return response;
}

absl::StatusOr<v1::ListClaimsResponse> ListClaims(Parts& parts, const v1::ListClaimsRequest& request) {
  // The revision first, as in ListVolumes.
  MOORING_ASSIGN_OR_RETURN(const Listing now, parts.state->List(RegistryStateKey(parts.config.host)));
  std::vector<Claim> claims;
  if (request.volume().id().empty()) {
    MOORING_ASSIGN_OR_RETURN(claims, parts.store.ListClaims());
  } else {
    MOORING_ASSIGN_OR_RETURN(const VolumeKey key, KeyOf(request.volume()));
    MOORING_ASSIGN_OR_RETURN(claims, parts.store.ListClaims(key));
  }
  v1::ListClaimsResponse response;
  response.set_revision(now.revision);
  for (const Claim& claim : claims) {
    if (IsOf(claim, request.allocation())) *response.add_claims() = ToProto(claim);
  }
  return response;
}

absl::StatusOr<v1::AllocationGoneResponse> AllocationGone(Parts& parts, const v1::AllocationGoneRequest& request) {
  MOORING_RETURN_IF_ERROR(CheckName("the allocation", request.allocation()));
  MOORING_RETURN_IF_ERROR(parts.claims->AllocationGone(request.allocation()));
  MOORING_ASSIGN_OR_RETURN(const std::vector<Claim> claims, parts.store.ListClaims());
  v1::AllocationGoneResponse response;
  response.set_claims(static_cast<int>(std::count_if(claims.begin(), claims.end(), [&](const Claim& claim) {
    return claim.past && claim.allocation == request.allocation();
  })));
  return response;
}

}  // namespace mooring::manager
