#include "manager/claims/claim_rollbacks.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/status.h"
#include "manager/csi/csi_channel.h"

namespace mooring::manager {

absl::Status ClaimRollbacks::RollBack(const ClaimRecord& claim, const absl::Status& why, bool locked,
                                      Clock::time_point until) {
  const auto marked = Mark(claim, why);
  if (!marked.ok()) {
    const std::lock_guard<std::mutex> lock(mutex_);
    owed_.push_back({claim, why});
  }
  const absl::Status undone = !marked.ok()        ? marked.status()
                              : locked && *marked ? releaser_.FinishLocked(**marked, Durability::kSynced, until)
                                                  : absl::OkStatus();
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

bool ClaimRollbacks::IsOwed(const VolumeKey& volume, ClaimMode mode, const std::string& allocation) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::any_of(owed_.begin(), owed_.end(), [&](const Owed& owed) {
    return owed.claim.volume == volume && owed.claim.mode == mode && owed.claim.allocation == allocation;
  });
}

// A rollback stays in `owed_` until it is stored, so that IsOwed is true meanwhile.
void ClaimRollbacks::Resume() {
  std::vector<Owed> owed;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    owed = owed_;
  }
  for (const Owed& one : owed) {
    if (!Mark(one.claim, one.why).ok()) continue;
    const std::lock_guard<std::mutex> lock(mutex_);
    std::erase_if(owed_, [&one](const Owed& other) {
      return AreOfOneClaim(other.claim, one.claim) && IsSameRecord(other.claim, one.claim);
    });
  }
}

}  // namespace mooring::manager
