#include "manager/attach/detacher.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/status.h"

namespace mooring::manager {

// The claim's lock is held until the record is deleted. If two attachments that share a claim end at the same time, the
// second finds no other record and releases the claim.
absl::Status Detacher::Detach(AttachmentRecord record, const OnStep& on_step, Clock::time_point until) {
  on_step("unmount");
  const absl::Status unmounted = volumes_.Unmount(record, until);
  if (absl::IsCancelled(unmounted)) return unmounted;
  if (!unmounted.ok() && IsRefused(record)) return unmounted;
  // A holder of this lock works on claims only, so the wait is short; the outcome is stored even past the deadline.
  const Clock::time_point patience = std::max(until, Clock::now() + claim_patience_);
  const auto claim = locks_.Claim(record.volume, record.mode, record.allocation, patience);
  if (!claim.ok()) {
    StoreProblem(record, claim.status());
    return claim.status();
  }
  absl::Status status = unmounted;
  if (!IsClaimShared(record)) {
    on_step("release");
    const absl::Status released = Release(record, unmounted, until);
    if (status.ok()) status = Annotate(released, "release the claim");
  }
  // Synced, so that after a power cut the volume is not mounted again for a caller who was told that it is detached.
  if (status.ok()) return journal_.Remove(record, Durability::kSynced);
  StoreProblem(record, status);
  return status;
}

// An attachment that cannot be read may share the claim.
absl::Status Detacher::Release(const AttachmentRecord& record, const absl::Status& unmounted, Clock::time_point until) {
  MOORING_RETURN_IF_ERROR(journal_.CheckReadable(record.allocation));
  return claims_.Release(record.volume, record.mode, record.allocation, unmounted, until);
}

// If the record cannot be stored, the detach is still under way, and is repeated.
bool Detacher::IsRefused(AttachmentRecord& record) {
  if (!record.refusable || !volumes_.IsAttached(record)) return false;
  AttachmentRecord mounted = record;
  mounted.phase = AttachmentRecord::Phase::kMounted;
  mounted.refusable = false;
  if (!journal_.Put(mounted, Durability::kOrdered).ok()) return false;
  record = std::move(mounted);
  return true;
}

bool Detacher::IsClaimShared(const AttachmentRecord& record) const {
  const std::vector<AttachmentRecord> records = journal_.Of(record.volume);
  return std::any_of(records.begin(), records.end(), [&](const AttachmentRecord& other) {
    return (other.allocation != record.allocation || other.request != record.request) && AreOfOneClaim(other, record);
  });
}

void Detacher::StoreProblem(AttachmentRecord& record, const absl::Status& problem) {
  const bool is_news = WithoutTries(record.problem) != WithoutTries(Message(problem));
  if (!is_news || absl::IsCancelled(problem)) return;
  record.problem = Message(problem);
  journal_.Put(record, Durability::kSynced).IgnoreError();
}

}  // namespace mooring::manager
