#include "manager/claims/claim_rollbacks.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/status.h"

namespace mooring::manager {

absl::Status ClaimRollbacks::RollBack(const ClaimRecord& claim, const absl::Status& why, bool locked,
                                      Clock::time_point until) {
  const auto marked = Mark(claim, Message(why));
  if (!marked.ok()) {
    const std::lock_guard<std::mutex> lock(mutex_);
    owed_.push_back(claim);
    owed_.back().problem = Message(why);
  }
  const absl::Status undone = !marked.ok()        ? marked.status()
                              : locked && *marked ? releaser_.FinishLocked(**marked, Durability::kSynced, until)
                                                  : absl::OkStatus();
  if (undone.ok() || absl::IsUnavailable(undone)) return why;
  return Annotate(why, fmt::format("(and taking it back failed: {})", Message(undone)));
}

// A claim that was published since, or replaced by a new record, has an owner and is left alone.
absl::StatusOr<std::optional<ClaimRecord>> ClaimRollbacks::Mark(const ClaimRecord& claim, const std::string& why) {
  return records_.Change(claim, [&](ClaimRecord& record) {
    if (!IsSameRecord(record, claim) || record.state != ClaimRecord::State::kTaken ||
        record.publish != ClaimRecord::Publish::kSent) {
      return false;
    }
    record.state = ClaimRecord::State::kNodeDetached;
    record.problem = why;
    return true;
  });
}

bool ClaimRollbacks::IsOwed(const VolumeKey& volume, ClaimMode mode, const std::string& allocation) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::any_of(owed_.begin(), owed_.end(), [&](const ClaimRecord& owed) {
    return owed.volume == volume && owed.mode == mode && owed.allocation == allocation;
  });
}

// A rollback stays in `owed_` until it is stored, so that IsOwed is true meanwhile.
void ClaimRollbacks::Resume() {
  std::vector<ClaimRecord> owed;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    owed = owed_;
  }
  for (const ClaimRecord& claim : owed) {
    if (!Mark(claim, claim.problem).ok()) continue;
    const std::lock_guard<std::mutex> lock(mutex_);
    std::erase_if(owed_,
                  [&](const ClaimRecord& other) { return AreOfOneClaim(other, claim) && IsSameRecord(other, claim); });
  }
}

}  // namespace mooring::manager
