#include "manager/claims/claim_rollbacks.h"

#include <fmt/format.h>

#include "base/status.h"
#include "base/text/quote.h"
#include "manager/csi/csi_channel.h"
#include "manager/records/names.h"

namespace mooring::manager {
namespace {

std::string NameOf(const VolumeKey& volume, ClaimMode mode, const std::string& allocation) {
  return fmt::format("{} claim of {} on {}", ToString(mode), Quote(allocation), ToString(volume));
}

}  // namespace

absl::Status ClaimRollbacks::RollBack(const ClaimRecord& claim, const absl::Status& why, bool locked,
                                      Clock::time_point until) {
  const auto marked = Mark(claim, why);
  if (!marked.ok()) {
    work_.Push({.key = NameOf(claim.volume, claim.mode, claim.allocation),
                .attempt = [this, claim, why] { return MarkLater(claim, why); },
                .problem = Message(marked.status())},
               first_retry_);
  }
  const absl::Status undone = !marked.ok() ? marked.status()
                              : !*marked   ? absl::OkStatus()
                              : locked     ? releaser_.FinishLocked(**marked, Durability::kSynced, until)
                                           : releaser_.Resume({**marked});
  if (undone.ok() || absl::IsUnavailable(undone)) return why;
  return Annotate(why, fmt::format("(and taking it back failed: {})", Message(undone)));
}

// A claim that was published since, or replaced by a new record, has an owner and is left alone.
absl::StatusOr<std::optional<ClaimRecord>> ClaimRollbacks::Mark(const ClaimRecord& claim, const absl::Status& why) {
  return records_.Change(claim, [&](ClaimRecord& record) {
    if (!IsSameRecord(record, claim) || record.state != ClaimRecord::State::kTaken ||
        record.publish != ClaimRecord::Publish::kSent) {
      return false;
    }
    record.state = ClaimRecord::State::kNodeDetached;
    record.problem = Message(why);
    if (IsRefusal(why)) record.publish = ClaimRecord::Publish::kRefused;
    return true;
  });
}

absl::Status ClaimRollbacks::MarkLater(const ClaimRecord& claim, const absl::Status& why) {
  MOORING_ASSIGN_OR_RETURN(const auto marked, Mark(claim, why));
  return marked ? releaser_.Resume({*marked}) : absl::OkStatus();
}

bool ClaimRollbacks::IsOwed(const VolumeKey& volume, ClaimMode mode, const std::string& allocation) {
  return work_.Has(NameOf(volume, mode, allocation));
}

}  // namespace mooring::manager
