#include "manager/claims/claim_records.h"

#include <algorithm>
#include <utility>

#include "base/status.h"

namespace mooring::manager {

int CountUsing(const std::vector<ClaimRecord>& claims) {
  return static_cast<int>(
      std::count_if(claims.begin(), claims.end(), [](const ClaimRecord& claim) { return !claim.lost; }));
}

bool IsSameRecord(const ClaimRecord& a, const ClaimRecord& b) { return a.revisions.create == b.revisions.create; }

absl::StatusOr<std::optional<ClaimRecord>> ClaimRecords::Find(const VolumeKey& volume, ClaimMode mode,
                                                              const std::string& allocation) {
  MOORING_ASSIGN_OR_RETURN(std::vector<ClaimRecord> claims, store_.ListClaims(volume));
  for (ClaimRecord& claim : claims) {
    if (claim.mode == mode && claim.allocation == allocation) return std::move(claim);
  }
  return std::nullopt;
}

absl::StatusOr<std::optional<ClaimRecord>> ClaimRecords::Change(const ClaimRecord& claim,
                                                                const std::function<bool(ClaimRecord&)>& change,
                                                                Durability durability) {
  for (;;) {
    MOORING_ASSIGN_OR_RETURN(std::optional<ClaimRecord> current, Find(claim.volume, claim.mode, claim.allocation));
    if (!current || !change(*current)) return current;
    const auto revision = store_.Commit(Changes().Put(*current).With(durability));
    if (absl::IsAborted(revision.status())) continue;
    MOORING_RETURN_IF_ERROR(revision.status());
    current->revisions.SetStored(*revision);
    return current;
  }
}

void ClaimRecords::Report(const ClaimRecord& claim, bool bad, const std::string& text) {
  events_.Add({.bad = bad, .kind = "claim", .volume = claim.volume, .allocation = claim.allocation, .text = text});
}

}  // namespace mooring::manager
