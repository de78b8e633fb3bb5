// Undoes claims whose publish at the controller failed. A rollback that the store refuses is kept in memory, and
// repeated in the background.
#pragma once

#include <optional>
#include <string>

#include "manager/claims/claim_records.h"
#include "manager/claims/claim_releaser.h"

namespace mooring::manager {

class ClaimRollbacks {
 public:
  // All outlive it.
  ClaimRollbacks(ClaimRecords& records, ClaimReleaser& releaser, WorkQueue& queue, Clock::duration first_retry)
      : records_(records),
        releaser_(releaser),
        first_retry_(first_retry),
        work_(queue, {.kind = "rollback", .first_retry = first_retry}) {}

  // Undoes the claim and its controller publish, which may have happened although the call failed. Steps that fail are
  // stored in ClaimRecord::problem and retried; without the controller lock (`locked`), all steps are. A publish that
  // was refused did not happen, so a refused unpublish keeps no claim. Returns `why`, with a note if the rollback
  // failed.
  absl::Status RollBack(const ClaimRecord& claim, const absl::Status& why, bool locked, Clock::time_point until);

  // Whether a rollback of this claim could not be stored yet.
  bool IsOwed(const VolumeKey& volume, ClaimMode mode, const std::string& allocation);

  void Stop() { work_.Stop(); }

 private:
  absl::Status MarkLater(const ClaimRecord& claim, const absl::Status& why);
  absl::StatusOr<std::optional<ClaimRecord>> Mark(const ClaimRecord& claim, const absl::Status& why);

  ClaimRecords& records_;
  ClaimReleaser& releaser_;
  const Clock::duration first_retry_;
  WorkKind work_;  // last: its attempts use all of the above
};

}  // namespace mooring::manager
