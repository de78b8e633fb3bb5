// Detaching: unmount, release, forget; each again until it is done.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "base/text/quote.h"
#include "manager/attach/attachments.h"
#include "manager/records/names.h"

namespace mooring::manager {

absl::Status Attachments::Detach(const std::string& allocation, const std::string& request, const OnStep& asked_step,
                                 Clock::time_point until) {
  const OnStep on_step = asked_step ? asked_step : [](const std::string&) {};
  MOORING_ASSIGN_OR_RETURN(const KeyedLocks::Hold hold, Lock({allocation, request}, until));
  std::optional<AttachmentRecord> record = journal_.Find(allocation, request);
  if (!record) return absl::OkStatus();
  if (record->phase != AttachmentRecord::Phase::kUnmounting) {
    record->phase = AttachmentRecord::Phase::kUnmounting;
    MOORING_RETURN_IF_ERROR(journal_.Put(*record, Durability::kOrdered));
  }
  const absl::Status status = Finish(*record, on_step, until);
  if (status.ok()) return status;
  Schedule(*record, settings_.first_retry, settings_.first_retry);
  return absl::Status(status.code(), fmt::format("detach volume {} from {}: {}; its claim stays, and this is tried "
                                                 "again in the background until it is done",
                                                 ToString(record->volume), Quote(allocation), Message(status)));
}

// The claim's lock is held until the record is gone: of two that share the claim and go at the same time, the second
// finds no other and gives it up.
absl::Status Attachments::Finish(AttachmentRecord record, const OnStep& on_step, Clock::time_point until) {
  on_step("unmount");
  const absl::Status unmounted = volumes_.Unmount(record, until);
  if (absl::IsCancelled(unmounted)) return unmounted;
  // Whoever holds it is at the claims, not at a node: the outcome is told even when the time is up.
  const Clock::time_point patience = std::max(until, Clock::now() + settings_.claim_patience);
  const auto claim = LockClaim(record, patience);
  if (!claim.ok()) {
    if (!absl::IsCancelled(claim.status())) Note(record, claim.status());
    return claim.status();
  }
  absl::Status status = unmounted;
  if (!IsClaimShared(record)) {
    on_step("release");
    const absl::Status released = claims_.Release(record.volume, record.mode, record.allocation, unmounted, until);
    if (status.ok()) status = Annotate(released, "release the claim");
  }
  // Not even a power cut may mount again what the caller was told is detached, or is being detached.
  if (status.ok()) return journal_.Remove(record, Durability::kSynced);
  Note(record, status);
  return status;
}

// Under the claim's lock no attach is between its journal record and its claim.
absl::Status Attachments::Release(const VolumeKey& volume, ClaimMode mode, const std::string& allocation,
                                  Clock::time_point until) {
  MOORING_ASSIGN_OR_RETURN(const KeyedLocks::Hold claim, LockClaim(volume, mode, allocation, until));
  for (const AttachmentRecord& mount : journal_.Of(volume)) {
    if (mount.allocation != allocation || mount.mode != mode) continue;
    return FailedPrecondition(fmt::format(
        "the volume {} is attached for {} at {}: detach it first (a claim of which nobody asked for more than "
        "that goes with it)",
        ToString(volume), Quote(allocation), Quote(mount.attach_path.empty() ? mount.target_path : mount.attach_path)));
  }
  return claims_.ReleaseKept(volume, mode, allocation, until);
}

bool Attachments::IsClaimShared(const AttachmentRecord& record) const {
  const std::vector<AttachmentRecord> records = journal_.Of(record.volume);
  return std::any_of(records.begin(), records.end(), [&](const AttachmentRecord& other) {
    return KeyOf(other) != KeyOf(record) && AreOfOneClaim(other, record);
  });
}

// For who looks at the attachments. The same again is not written again.
void Attachments::Note(AttachmentRecord& record, const absl::Status& problem) {
  const bool is_news = WithoutTries(record.problem) != WithoutTries(Message(problem));
  if (!is_news || absl::IsCancelled(problem)) return;
  record.problem = Message(problem);
  journal_.Put(record, Durability::kSynced).IgnoreError();
}

}  // namespace mooring::manager
