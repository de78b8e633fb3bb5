#include "manager/attach/attachments.h"

#include <fmt/format.h>

#include <utility>

#include "base/status.h"
#include "base/text/quote.h"
#include "manager/records/names.h"
#include "manager/state/keys.h"

namespace mooring::manager {

Attachments::Attachments(MountJournal& journal, ClaimBroker& claims, VolumeMounter& volumes, Events& events,
                         Settings settings)
    : journal_(journal),
      claims_(claims),
      volumes_(volumes),
      events_(events),
      settings_(std::move(settings)),
      lanes_(settings_.restorers) {}

Attachments::~Attachments() { Stop(); }

void Attachments::BeginStop() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  locks_.Stop(Stopping());
}

void Attachments::Stop() {
  BeginStop();
  lanes_.Stop();
}

// Escaped names have no '/' in them, so no key of one kind is another's.
absl::StatusOr<KeyedLocks::Hold> Attachments::Lock(const Key& key, Clock::time_point until) {
  return locks_.Acquire(fmt::format("request/{}/{}", Escape(key.first), Escape(key.second)), "attachment", until);
}

absl::StatusOr<KeyedLocks::Hold> Attachments::LockClaim(const AttachmentRecord& record, Clock::time_point until) {
  return LockClaim(record.volume, record.mode, record.allocation, until);
}

absl::StatusOr<KeyedLocks::Hold> Attachments::LockClaim(const VolumeKey& volume, ClaimMode mode,
                                                        const std::string& allocation, Clock::time_point until) {
  return locks_.Acquire("claim/" + ClaimStateKey(volume, mode, allocation), "claim", until);
}

void Attachments::Tell(const std::string& kind, const AttachmentRecord& record, const absl::Status& status) {
  if (absl::IsCancelled(status)) return;  // by the stop, and no failure
  Event event;
  event.bad = !status.ok();
  event.kind = kind;
  event.plugin = record.plugin;
  event.volume = record.volume;
  event.allocation = record.allocation;
  event.text = Message(status);
  events_.Add(std::move(event));
}

}  // namespace mooring::manager
