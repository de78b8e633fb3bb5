#include "manager/attach/attachments.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/text/quote.h"
#include "manager/records/names.h"

namespace mooring::manager {
namespace {

// A detach that may be refused puts the record back if its user still has the mount. So it needs its claim until then.
bool StaysMounted(const AttachmentRecord& record) {
  return record.phase == AttachmentRecord::Phase::kMounted ||
         (record.phase == AttachmentRecord::Phase::kUnmounting && record.refusable);
}

// The attachment waits for its plugin, or is not mounted yet. Attachments below its path would be hidden by its mount.
bool IsMountToCome(const AttachmentRecord& record, const absl::Status& status) {
  const bool again = IsWorthAnotherTry(status) || absl::IsCancelled(status);
  return absl::IsUnavailable(status) || (record.phase == AttachmentRecord::Phase::kMounted && again);
}

}  // namespace

// The claim's lock is held until the record is deleted. If two attachments that share a claim end at the same time, the
// second finds no other record and releases the claim.
absl::Status Detacher::Detach(AttachmentRecord record, const OnStep& on_step, Clock::time_point until) {
  on_step("unmount");
  const absl::Status unmounted = volumes_.Unmount(record, until);
  if (absl::IsCancelled(unmounted)) return unmounted;
  if (!unmounted.ok() && IsRefused(record)) return unmounted;
  record.refusable = false;  // it is taken from its user
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

Attachments::Attachments(AttachmentJournal& journal, ClaimBroker& claims, VolumeMounter& volumes, Events& events,
                         WorkQueue& queue, Settings settings)
    : journal_(journal),
      claims_(claims),
      volumes_(volumes),
      events_(events),
      settings_(std::move(settings)),
      detacher_(journal, claims, volumes, locks_, settings_.claim_patience),
      queue_(queue,
             {.kind = "attachment",
              .width = settings_.restorers,
              .first_retry = settings_.first_retry,
              .longest_retry = settings_.longest_retry},
             [this](const RestoreQueue::Key& key) { return Attempt(key); }) {}

Attachments::~Attachments() { Stop(); }

void Attachments::BeginStop() {
  stop_.request_stop();
  queue_.BeginStop();
  locks_.Stop();
}

void Attachments::Stop() {
  BeginStop();
  queue_.Stop();
}

absl::Status Attachments::Detach(const std::string& allocation, const std::string& request, Failure failure,
                                 const OnStep& asked_step, Clock::time_point until) {
  MOORING_ASSIGN_OR_RETURN(const KeyedLocks::Hold hold, locks_.Request(allocation, request, until));
  std::optional<AttachmentRecord> record = journal_.Find(allocation, request);
  if (!record) return journal_.CheckReadable(allocation, request);
  const bool may_be_refused = record->refusable || record->phase == AttachmentRecord::Phase::kMounted;
  const bool refusable = failure == Failure::kChangesNothing && may_be_refused;
  if (record->phase != AttachmentRecord::Phase::kUnmounting || record->refusable != refusable) {
    record->phase = AttachmentRecord::Phase::kUnmounting;
    record->refusable = refusable;
    MOORING_RETURN_IF_ERROR(journal_.Put(*record, Durability::kOrdered));
  }
  const absl::Status status = detacher_.Detach(*record, asked_step ? asked_step : ignore_steps_, until);
  if (status.ok()) return status;
  const std::string text =
      fmt::format("detach volume {} from {}: {}", ToString(record->volume), Quote(allocation), Message(status));
  const std::optional<AttachmentRecord> left = journal_.Find(allocation, request);
  if (left && left->phase == AttachmentRecord::Phase::kMounted) {
    return absl::Status(status.code(), text + "; nothing has changed: it is still attached");
  }
  queue_.Schedule(left ? *left : *record, settings_.first_retry);
  return absl::Status(status.code(),
                      text + "; its claim stays, and the detach is retried in the background until it succeeds");
}

// Under the claim's lock no attach is between its journal record and its claim.
absl::Status Attachments::Release(const VolumeKey& volume, ClaimMode mode, const std::string& allocation,
                                  Clock::time_point until) {
  MOORING_ASSIGN_OR_RETURN(const KeyedLocks::Hold claim, locks_.Claim(volume, mode, allocation, until));
  for (const AttachmentRecord& mount : journal_.Of(volume)) {
    if (mount.allocation != allocation || mount.mode != mode) continue;
    return FailedPrecondition(
        "the volume {} is attached for {} at {}: detach it first (the detach also releases a claim that was not taken "
        "separately)",
        ToString(volume), Quote(allocation), Quote(mount.attach_path.empty() ? mount.target_path : mount.attach_path));
  }
  MOORING_RETURN_IF_ERROR(journal_.CheckReadable(allocation));
  return claims_.ReleaseKept(volume, mode, allocation, until);
}

absl::Status Attachments::CheckClaims(const std::vector<AttachmentRecord>& records,
                                      const std::function<bool(const AttachmentRecord&)>& held, Missing missing) {
  for (const AttachmentRecord& seen : records) {
    if (!StaysMounted(seen) || held(seen)) continue;
    MOORING_ASSIGN_OR_RETURN(const KeyedLocks::Hold hold,
                             locks_.Request(seen.allocation, seen.request, Clock::now() + settings_.detach_time));
    std::optional<AttachmentRecord> record = journal_.Find(seen.allocation, seen.request);
    const bool is_other = !record || record->revisions.create != seen.revisions.create;  // attached since, with a claim
    if (is_other || !StaysMounted(*record)) continue;
    MOORING_RETURN_IF_ERROR(CheckClaim(*std::move(record), missing));
  }
  return absl::OkStatus();
}

absl::Status Attachments::ReleaseUnused(const Claim& claim, const Volume& volume, Clock::time_point until) {
  MOORING_ASSIGN_OR_RETURN(const KeyedLocks::Hold hold,
                           locks_.Claim(claim.volume, claim.mode, claim.allocation, until));
  if (journal_.IsUsed(claim)) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(const std::vector<std::string> mounts, volumes_.FindUnknownMounts(volume));
  if (!mounts.empty()) {
    std::vector<std::string> quoted;
    for (const std::string& mount : mounts) quoted.push_back(Quote(mount));
    return FailedPrecondition(
        "the claim of {} stays, because volume {} is mounted at {}, which no attachment has: unmount all of them, and "
        "the claim is freed",
        Quote(claim.allocation), ToString(volume.key), fmt::join(quoted, ", "));
  }
  return claims_.Release(claim.volume, claim.mode, claim.allocation, absl::OkStatus(), until);
}

absl::Status Attachments::CheckClaim(AttachmentRecord record, Missing missing) {
  if (missing == Missing::kToBeTakenAgain) {
    const absl::Status taken =
        ClaimAgain(record, MountNow::kIsThere, ignore_steps_, Clock::now() + settings_.claim_patience).status();
    if (taken.ok() || IsWorthAnotherTry(taken) || absl::IsCancelled(taken)) return taken;
  }
  record.phase = AttachmentRecord::Phase::kUnmounting;
  record.refusable = false;
  record.problem = "its claim was freed while this host was unreachable, so it is detached";
  MOORING_RETURN_IF_ERROR(journal_.Put(record, Durability::kSynced));
  Report("waiting", record, FailedPrecondition(record.problem));
  queue_.Schedule(record, Clock::duration::zero());
  return absl::OkStatus();
}

void Attachments::Restore(const std::function<bool(const AttachmentRecord&)>& is_over) {
  std::vector<AttachmentRecord> records = journal_.All();
  for (AttachmentRecord& record : records) {
    if (!is_over || record.phase != AttachmentRecord::Phase::kMounted || !is_over(record)) continue;
    AttachmentRecord ended = record;
    ended.phase = AttachmentRecord::Phase::kUnmounting;
    if (journal_.Put(ended, Durability::kOrdered).ok()) record = ended;  // otherwise it is restored
  }
  queue_.Restore(std::move(records));
}

RestoreQueue::Outcome Attachments::Attempt(const RestoreQueue::Key& key) {
  const auto hold = locks_.Request(key.first, key.second, Clock::now() + settings_.detach_time);
  std::optional<AttachmentRecord> record = journal_.Find(key.first, key.second);
  if (!record) return {};
  const absl::Status status = hold.ok() ? AttemptLocked(*record) : hold.status();
  return {.status = status, .is_final = !IsMountToCome(*record, status)};
}

absl::Status Attachments::AttemptLocked(AttachmentRecord& record) {
  const std::string before = record.problem;
  const Clock::time_point until = Clock::now() + settings_.detach_time;
  absl::Status status;
  switch (record.phase) {
    case AttachmentRecord::Phase::kIntent:
      record.phase = AttachmentRecord::Phase::kUnmounting;
      status = journal_.Put(record, Durability::kOrdered);
      if (status.ok()) status = detacher_.Detach(record, ignore_steps_, until);
      break;
    case AttachmentRecord::Phase::kUnmounting:
      status = ContinueDetach(record, until);
      break;
    case AttachmentRecord::Phase::kMounted:
      status = settings_.may_attach();
      if (!status.ok()) break;
      status = Annotate(Revive(record, ignore_steps_, Clock::now() + settings_.plugin_wait, until),
                        "restore the attachment");
      if (!status.ok()) detacher_.StoreProblem(record, status);
      break;
  }
  const bool is_news = WithoutTries(Message(status)) != WithoutTries(before);
  if (!status.ok() && is_news) Report("waiting", record, status);
  return status;
}

// The manager ended during a detach, so its caller has no answer. The volume is still there for its user: as after a
// refusal, nothing has changed.
absl::Status Attachments::ContinueDetach(AttachmentRecord& record, Clock::time_point until) {
  if (!record.refusable || !volumes_.IsAttached(record)) return detacher_.Detach(record, ignore_steps_, until);
  record.phase = AttachmentRecord::Phase::kMounted;
  record.refusable = false;
  return journal_.Put(record, Durability::kOrdered);
}

// A CANCELLED step is no failure: the manager stops.
void Attachments::Report(const std::string& kind, const AttachmentRecord& record, const absl::Status& status) {
  if (absl::IsCancelled(status)) return;
  events_.Add({.bad = !status.ok(),
               .kind = kind,
               .plugin = record.plugin,
               .volume = record.volume,
               .allocation = record.allocation,
               .text = Message(status)});
}

}  // namespace mooring::manager
