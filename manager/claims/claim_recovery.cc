#include "manager/claims/claim_recovery.h"

#include <fmt/format.h>

#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/text/quote.h"
#include "manager/state/keys.h"

namespace mooring::manager {

absl::Status ClaimRecovery::Recover(const std::string& host, Clock::time_point until) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<ClaimRecord> held, ClaimsOf(host));
  std::set<VolumeKey> volumes;
  for (const ClaimRecord& claim : held) volumes.insert(claim.volume);
  absl::Status first;  // a volume with an error does not keep the others
  for (const VolumeKey& volume : volumes) {
    const absl::Status status = GiveUp(volume, host);
    if (absl::IsAborted(status)) return status;
    first.Update(status);
  }
  MOORING_ASSIGN_OR_RETURN(std::vector<ClaimRecord> ending, ClaimsOf(host));
  std::erase_if(ending, IsBeforeNodeStep);
  MOORING_RETURN_IF_ERROR(releaser_.Resume(ending));
  releaser_.WaitUntilTried(until);
  return first;
}

absl::StatusOr<std::vector<ClaimRecord>> ClaimRecovery::ClaimsOf(const std::string& host) {
  return records_.store().ListClaims([&](const ClaimRecord& claim) { return claim.node == host; });
}

// Marks all claims of the host on the volume, with the host's record, in one commit. If one of them stayed, the volume
// would count as in use there, and the controller would not be asked.
absl::Status ClaimRecovery::GiveUp(const VolumeKey& key, const std::string& name) {
  RecordsStore& store = records_.store();
  for (;;) {
    MOORING_ASSIGN_OR_RETURN(const std::optional<KeyValue> live, store.shared().Get(LiveKey(name)));
    if (live) return Aborted("host {} is back", Quote(name));
    MOORING_ASSIGN_OR_RETURN(Host host, store.GetHost(name));
    auto volume = store.GetVolume(key);
    if (absl::IsNotFound(volume.status())) return absl::OkStatus();
    MOORING_RETURN_IF_ERROR(volume.status());
    MOORING_ASSIGN_OR_RETURN(std::vector<ClaimRecord> claims, store.ListClaims(key));
    Changes changes;
    std::vector<ClaimRecord> marked;
    for (ClaimRecord& claim : claims) {
      if (claim.node != name || !Mark(claim, *volume, host)) continue;
      changes.Put(claim);
      marked.push_back(claim);
    }
    if (marked.empty()) return absl::OkStatus();
    if (CountUsing(claims) == 0) volume->in_use.reset();
    host.gave_up_claims = true;
    const absl::Status status = store.Commit(changes.Put(*volume).Put(host).If(LiveKey(name), 0)).status();
    if (absl::IsAborted(status)) continue;
    MOORING_RETURN_IF_ERROR(status);
    for (const ClaimRecord& claim : marked) {
      records_.Report(
          claim, true,
          fmt::format("given up for host {}, which is {}", Quote(name), host.lost ? "lost" : "unreachable"));
    }
    return absl::OkStatus();
  }
}

// Gives whether there is something to store.
bool ClaimRecovery::Mark(ClaimRecord& claim, const Volume& volume, const Host& host) {
  if (host.lost) {
    MarkNodeDetached(claim);
    return !std::exchange(claim.lost, true);
  }
  return claim.publish != ClaimRecord::Publish::kNone && controller_.HasControllerFor(volume) &&
         MarkNodeDetached(claim);
}

}  // namespace mooring::manager
