// Takes one attachment down: unmount, release the claim, delete the record. Each step may be repeated.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "manager/attach/attachment_locks.h"
#include "manager/claims/claim_broker.h"
#include "manager/volumes/mount_journal.h"
#include "manager/volumes/volume_mounter.h"

namespace mooring::manager {

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
