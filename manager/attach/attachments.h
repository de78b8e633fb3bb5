// Attaches volumes at paths for allocations, detaches them, and restores them after a restart.
//
//   Attach  journal: intent ─▶ claim (and controller publish) ─▶ mount ─▶ journal: mounted
//   Detach  journal: unmounting ─▶ unmount ─▶ release ─▶ record deleted
//             refused, as the volume is in use: journal: mounted again          a later failure stays, and is retried
//
//   Restore, by the phase of the record:
//     intent      nobody was told of it: undone        mounted, and the kernel has the mount    left as it is
//     unmounting  continued; if its user still has     mounted, without its mount               claimed and mounted
//                 the mount, and it may be refused:                                             again
//                 mounted again
//
// The only writer of the journal. Each (allocation, request) has one operation at a time. A failure is retried in the
// background after 1, 2, 4 … 60 s. A detach repeats both unmount and release, so that the claim shows the problem. An
// attach that fails is undone like a detach.
//
// Requests of one allocation for the same volume and mode share a claim. The last detach releases it, unless a user
// claimed the volume separately.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/keyed_lock.h"
#include "manager/attach/restore_queue.h"
#include "manager/claims/claim_broker.h"
#include "manager/claims/claim_records.h"
#include "manager/csi/csi_channel.h"
#include "manager/records/events.h"
#include "manager/state/keys.h"
#include "manager/volumes/attachment_journal.h"
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
  Detacher(AttachmentJournal& journal, ClaimBroker& claims, VolumeMounter& volumes, AttachmentLocks& locks,
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

  AttachmentJournal& journal_;
  ClaimBroker& claims_;
  VolumeMounter& volumes_;
  AttachmentLocks& locks_;
  const Clock::duration claim_patience_;
};

struct AttachRequest {
  VolumeKey volume;
  std::string plugin;  // of the volume: an interrupted attach waits only for this plugin
  std::string allocation;
  std::string request;  // empty: the volume's id
  ClaimMode mode = ClaimMode::kWrite;
  Capability capability;
  MountOptions options;
  bool read_only = false;  // also implied by the claim mode, the access mode and the mount flag "ro"
  Propagation propagation = Propagation::kPrivate;
  std::string attach_path;    // empty: the caller uses AttachmentRecord::source
  bool until_reboot = false;  // AttachmentRecord::until_reboot
  // A caller that attaches again what it has attached, and detaches as often (EndRepeat). It is another one after it
  // has restarted. Empty: repeated attaches are not counted.
  std::string mounted_by = {};
  // Asked if the caller has restarted: whether something that uses the mount outlived the restart. Null: assume so.
  std::function<bool(const AttachmentRecord& mount)> has_older_user = nullptr;
  std::shared_ptr<const VolumeUse> seen = nullptr;  // ClaimRequest::seen
  // Asked after each wait. If it is true, nothing begins any more, and a mount under way is undone.
  IsAbandoned is_abandoned = nullptr;
};

class Attachments {
 public:
  struct Settings {
    std::string host;
    Clock::duration first_retry = std::chrono::seconds(1);
    Clock::duration longest_retry = std::chrono::seconds(60);
    Clock::duration claim_patience = std::chrono::seconds(10);     // how long a claim is retried
    Clock::duration claim_pause = std::chrono::milliseconds(100);  // before the first retry of a claim
    Clock::duration detach_time = std::chrono::minutes(2);         // for one attempt in the background
    Clock::duration plugin_wait = std::chrono::seconds(5);  // for a plugin that is away, in one attempt to restore
    int restorers = 8;                                      // threads for each plugin
    // Whether volumes may be mounted now; asked before each attach.
    std::function<absl::Status()> may_attach = [] { return absl::OkStatus(); };
  };
  // Called before each step ("claim", "mount", "unmount", "release"). May be empty.
  using OnStep = Detacher::OnStep;

  // All outlive it.
  Attachments(AttachmentJournal& journal, ClaimBroker& claims, VolumeMounter& volumes, Events& events, WorkQueue& queue,
              Settings settings);
  ~Attachments();  // Stop

  // An equal attachment that exists is returned, and mounted again if its mount is gone. ALREADY_EXISTS: it exists in
  // another form, or another one has the attach path. An error says which step failed, and what is left.
  absl::StatusOr<AttachmentRecord> Attach(const AttachRequest& request, const OnStep& on_step, Clock::time_point until);

  // OK if it is not attached. After an error, kChangesNothing: it is still attached, if it was not yet taken from its
  // user. Otherwise, and with kIsRepeated, the detach is repeated in the background until it succeeds. The error tells
  // which.
  enum class Failure { kChangesNothing, kIsRepeated };
  absl::Status Detach(const std::string& allocation, const std::string& request, Failure failure, const OnStep& on_step,
                      Clock::time_point until);

  // Ends an attach that Attach counted beside the first (AttachRequest::mounted_by). False: there is none, so the
  // caller ends its last.
  absl::StatusOr<bool> EndRepeat(const std::string& allocation, const std::string& request,
                                 const std::string& mounted_by, Clock::time_point until);

  // Whether this host has the volume mounted for the allocation of the claim. An attachment that is mounted no more,
  // and waits for the controller only, does not count.
  bool IsMountedFor(const Claim& claim);
  bool HasMountFor(const Claim& claim);  // the same by the kernel alone: after a reboot, for example, it has none

  // Releases a claim that no attachment uses. FAILED_PRECONDITION: the volume is still attached for that claim; its
  // writer would go on writing while another claims the volume.
  absl::Status Release(const VolumeKey& volume, ClaimMode mode, const std::string& allocation, Clock::time_point until);

  // Attachments whose claim this host does not hold (`held` is false): their claim is taken again, or they are detached
  // in the background and forgotten. They are also detached if others have the volume by now. `records` were read from
  // the journal before the claims. Called before Restore, and when this host has a new lease. An error: some were not
  // checked.
  enum class Missing { kToBeTakenAgain, kGivenUp };
  absl::Status CheckClaims(const std::vector<AttachmentRecord>& records,
                           const std::function<bool(const AttachmentRecord&)>& held, Missing missing);

  // UNAVAILABLE: the volume is still mounted here for a claim that others have freed. They may have used the volume
  // since, so the mount shows old data, and a write through it would destroy the new.
  absl::Status CheckNoStaleMount(const VolumeKey& volume);

  // Releases a claim of this host that no attachment uses and no user keeps. A power cut leaves such a claim, if it
  // comes between the stores of the attachment and of the claim. So does a commit whose answer was lost.
  // FAILED_PRECONDITION: `volume` is mounted here without an attachment, as after the return to an old journal.
  absl::Status ReleaseUnused(const Claim& claim, const Volume& volume, Clock::time_point until);

  // Called once, before the first call of a client, or once the state can be read. Restores in the background
  // (restore_queue.h). An attached record for which `is_over` is true is detached instead; an attach of the same
  // request waits for that.
  void Restore(const std::function<bool(const AttachmentRecord&)>& is_over = nullptr);
  void WaitUntilRestored(Clock::time_point until) { queue_.WaitUntilRestored(until); }
  int restoring() const { return queue_.restoring(); }
  std::optional<Clock::duration> restored_in() const { return queue_.restored_in(); }

  void BeginStop();  // ends every wait with CANCELLED, and starts nothing new
  void Stop();       // BeginStop, then waits for the background work

 private:
  void Report(const std::string& kind, const AttachmentRecord& record, const absl::Status& status);

  // attach.cc
  absl::StatusOr<AttachmentRecord> AttachAnew(AttachmentRecord record, const AttachRequest& request,
                                              const OnStep& on_step, Clock::time_point until);
  absl::StatusOr<ClaimAnswer> IntendAndClaim(AttachmentRecord& record, const AttachRequest& request,
                                             const OnStep& on_step, Clock::time_point until);
  enum class MountNow { kIsToCome, kIsThere };  // ClaimRequest::for_present_mount
  absl::StatusOr<ClaimAnswer> ClaimAgain(const AttachmentRecord& record, MountNow mount, const OnStep& on_step,
                                         Clock::time_point until);
  absl::Status WriteIntent(AttachmentRecord& record, Clock::time_point until);
  absl::StatusOr<ClaimAnswer> ClaimWithRetry(const AttachmentRecord& record, const AttachRequest& asked,
                                             Clock::time_point until, MountNow mount = MountNow::kIsToCome);
  absl::Status MountClaimed(AttachmentRecord& record, const ClaimAnswer& answer, const IsAbandoned& is_abandoned,
                            const OnStep& on_step, Clock::time_point until);
  absl::Status MountAt(AttachmentRecord& record, const MountContext& context, Clock::time_point until);
  void ExpandIfOwed(const AttachmentRecord& record, const Volume& volume, Clock::time_point until);
  absl::Status CountRepeat(AttachmentRecord& record, const AttachRequest& request, bool was_there);
  absl::Status RollBack(AttachmentRecord& record, const absl::Status& why, const OnStep& on_step,
                        Clock::time_point until);
  // Mounts again if the mount is gone. `look_until`: how long it waits for the plugin.
  absl::Status Revive(AttachmentRecord& record, const OnStep& on_step, Clock::time_point look_until,
                      Clock::time_point until);

  absl::Status CheckClaim(AttachmentRecord record, Missing missing);

  // attachments.cc: one attempt of the queue
  RestoreQueue::Outcome Attempt(const RestoreQueue::Key& key);
  absl::Status AttemptLocked(AttachmentRecord& record);
  absl::Status ContinueDetach(AttachmentRecord& record, Clock::time_point until);

  AttachmentJournal& journal_;
  ClaimBroker& claims_;
  VolumeMounter& volumes_;
  Events& events_;
  const Settings settings_;
  const OnStep ignore_steps_ = [](const std::string&) {};
  std::stop_source stop_;
  AttachmentLocks locks_;
  Detacher detacher_;
  RestoreQueue queue_;  // last: its threads use all of the above
};

}  // namespace mooring::manager
