#include "manager/claims/publish_undo.h"

#include <algorithm>

#include "base/status.h"
#include "manager/claims/claim_records.h"

namespace mooring::manager {

void PublishUndo::Undo(const ClaimAnswer& answer, const absl::Status& why, Clock::time_point until) {
  if (IsRefusal(why)) return;
  const absl::Status status = Unpublish(answer, until);
  if (!status.ok() && !absl::IsCancelled(status)) Owe(answer, status, first_retry_);
}

void PublishUndo::Owe(const ClaimAnswer& answer, const absl::Status& why, Clock::duration delay) {
  const auto attempt = [this, answer]() -> absl::Status {
    const Clock::time_point until = Clock::now() + ControllerPublisher::kAttempt;
    MOORING_ASSIGN_OR_RETURN(const KeyedLocks::Hold hold, controller_.Lock(answer.claim.volume, until));
    return Unpublish(answer, until);
  };
  work_.Push(
      {.key = ClaimName(answer.claim), .lane = answer.volume.plugin, .attempt = attempt, .problem = Message(why)},
      delay);
}

// The volume is the one that was published: its record may be gone, or be that of another volume by now.
absl::Status PublishUndo::Unpublish(const ClaimAnswer& answer, Clock::time_point until) {
  bool is_needed = true;
  const auto may_call = [&]() -> absl::Status {
    MOORING_ASSIGN_OR_RETURN(const VolumeUse use, store_.GetVolumeUse(answer.claim.volume));
    is_needed = std::none_of(use.claims.begin(), use.claims.end(),
                             [&](const Claim& other) { return NeedsPublish(other, answer.claim.external_node_id); });
    return is_needed ? absl::OkStatus() : FailedPrecondition("another claim needs the volume published");
  };
  const absl::Status status = controller_.Unpublish(answer.volume, answer.claim, until, may_call);
  return !is_needed || absl::IsNotFound(status) ? absl::OkStatus() : status;
}

}  // namespace mooring::manager
