#include "manager/claims/claim_recovery.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "base/status.h"
#include "base/text/quote.h"
#include "manager/state/keys.h"

namespace mooring::manager {

absl::Status ClaimRecovery::Recover(const std::string& host, Clock::time_point until) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<ClaimRecord> held, ClaimsOf(host));
  for (const ClaimRecord& claim : held) MOORING_RETURN_IF_ERROR(GiveUp(claim, host));
  MOORING_ASSIGN_OR_RETURN(std::vector<ClaimRecord> ending, ClaimsOf(host));
  std::erase_if(ending, IsBeforeNodeStep);
  releaser_.FinishAll(std::move(ending), "", until);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ClaimRecord>> ClaimRecovery::ClaimsOf(const std::string& host) {
  MOORING_ASSIGN_OR_RETURN(std::vector<ClaimRecord> claims, records_.store().ListClaims());
  std::erase_if(claims, [&](const ClaimRecord& claim) { return claim.node != host; });
  return claims;
}

// Marks the claim, with the host's record in the same commit.
absl::Status ClaimRecovery::GiveUp(const ClaimRecord& claim, const std::string& name) {
  RecordsStore& store = records_.store();
  for (;;) {
    MOORING_ASSIGN_OR_RETURN(const std::optional<KeyValue> live, store.shared().Get(LiveKey(name)));
    if (live) return Aborted("host {} is back", Quote(name));
    MOORING_ASSIGN_OR_RETURN(Host host, store.GetHost(name));
    auto volume = store.GetVolume(claim.volume);
    if (absl::IsNotFound(volume.status())) return absl::OkStatus();
    MOORING_RETURN_IF_ERROR(volume.status());
    MOORING_ASSIGN_OR_RETURN(auto current, records_.Find(claim.volume, claim.mode, claim.allocation));
    if (!current || current->node != name) return absl::OkStatus();
    MOORING_ASSIGN_OR_RETURN(const bool marked, Mark(*current, *volume, host));
    if (!marked) return absl::OkStatus();
    host.gave_up_claims = true;
    const Changes changes = Changes().Put(*current).Put(*volume).Put(host).If(LiveKey(name), 0);
    const absl::Status status = store.Commit(changes).status();
    if (absl::IsAborted(status)) continue;
    MOORING_RETURN_IF_ERROR(status);
    records_.Report(*current, true,
                    fmt::format("given up for host {}, which is {}", Quote(name), host.lost ? "lost" : "unreachable"));
    return absl::OkStatus();
  }
}

// Gives whether there is something to store.
absl::StatusOr<bool> ClaimRecovery::Mark(ClaimRecord& claim, Volume& volume, const Host& host) {
  if (host.lost) {
    if (std::exchange(claim.lost, true)) return false;
    MarkNodeDetached(claim);
    MOORING_ASSIGN_OR_RETURN(const std::vector<ClaimRecord> all, records_.store().ListClaims(claim.volume));
    if (CountUsing(all) <= 1) volume.in_use.reset();  // this one was the last
    return true;
  }
  const bool can_be_detached = claim.publish != ClaimRecord::Publish::kNone && controller_.HasController(volume.plugin);
  return can_be_detached && MarkNodeDetached(claim);
}

}  // namespace mooring::manager
