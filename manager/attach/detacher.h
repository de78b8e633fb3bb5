// The locks of attachments, and how one attachment is taken down.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/keyed_lock.h"
#include "manager/claims/claim_broker.h"
#include "manager/csi/csi_channel.h"
#include "manager/state/keys.h"
#include "manager/volumes/mount_journal.h"
#include "manager/volumes/volume_mounter.h"

namespace mooring::manager {

// The locks of Attachments, in the order in which they are taken: request, claim, attach path. The kinds of keys never
// collide, because escaped names contain no '/'.
class AttachmentLocks {
 public:
  absl::StatusOr<KeyedLocks::Hold> Request(const std::string& allocation, const std::string& request,
                                           Clock::time_point until) {
    return locks_.Acquire(fmt::format("request/{}/{}", Escape(allocation), Escape(request)), "attachment", until);
  }
  absl::StatusOr<KeyedLocks::Hold> Claim(const VolumeKey& volume, ClaimMode mode, const std::string& allocation,
                                         Clock::time_point until) {
    return locks_.Acquire("claim/" + ClaimStateKey(volume, mode, allocation), "claim", until);
  }
  absl::StatusOr<KeyedLocks::Hold> AttachPath(const std::string& path, Clock::time_point until) {
    return locks_.Acquire("path" + path, "attach path", until);
  }

  void Stop() { locks_.Stop(Stopping()); }  // waiters, now and later, get CANCELLED

 private:
  KeyedLocks locks_;
};

// Takes one attachment down: unmount, release the claim, delete the record. Each step may be repeated.
class Detacher {
 public:
  using OnStep = std::function<void(const std::string& step)>;

  // All outlive it. `claim_patience`: how long it waits for the lock of the claim, even past the deadline of the call.
  Detacher(MountJournal& journal, ClaimBroker& claims, VolumeMounter& volumes, AttachmentLocks& locks,
           Clock::duration claim_patience)
      : journal_(journal), claims_(claims), volumes_(volumes), locks_(locks), claim_patience_(claim_patience) {}

  // A failure is stored in AttachmentRecord::problem, and the claim stays. The caller holds the lock of the request.
  // A refusable detach that fails before the volume is taken from its user changes nothing: the record is kMounted.
  absl::Status Detach(AttachmentRecord record, const OnStep& on_step, Clock::time_point until);

  // Stores `problem` in the record, unless it is CANCELLED or differs only in the number of tries.
  void StoreProblem(AttachmentRecord& record, const absl::Status& problem);

 private:
  bool IsRefused(AttachmentRecord& record);
  bool IsClaimShared(const AttachmentRecord& record) const;
  absl::Status Release(const AttachmentRecord& record, const absl::Status& unmounted, Clock::time_point until);

  MountJournal& journal_;
  ClaimBroker& claims_;
  VolumeMounter& volumes_;
  AttachmentLocks& locks_;
  const Clock::duration claim_patience_;
};

}  // namespace mooring::manager
