// Volumes at paths, for allocations: claim, mount, and both undone; restored after a restart. (e)
//
//   Attach  journal: intent ─▶ claim (and controller publish) ─▶ mount ─▶ journal: mounted
//   Detach  journal: unmounting ─▶ unmount ─▶ release ─▶ journal: gone         a failure stays, and is tried again
//
//   at the start, of each record:
//     intent      nobody was told of it: taken back            mounted, HasMount    left as it is
//     unmounting  goes on                                      mounted, no mount    claim and mount again
//
// One writer of the journal. Operations of one (allocation, request) are one at a time. What failed is tried again
// after 1, 2, 4 … 60 s until it succeeds; of a detach the unmount and the release each time, so that the claim says
// what is wrong (but for one that a user keeps). An attach that fails is a detach from there on.
//
// A claim is the allocation's: two of its requests for one volume, in one mode, share it, and the last one gives it up,
// unless a user asked for it apart from that.
//
// Locks, in the order in which they are taken: the request's; the claim's, while it is taken or given up; the attach
// path's, while it is looked at and written down.
#ifndef MOORING_MANAGER_ATTACH_ATTACHMENTS_H_
#define MOORING_MANAGER_ATTACH_ATTACHMENTS_H_

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/keyed_lock.h"
#include "manager/attach/work_lanes.h"
#include "manager/claims/claim_broker.h"
#include "manager/records/events.h"
#include "manager/volumes/mount_journal.h"
#include "manager/volumes/volume_mounter.h"

namespace mooring::manager {

struct AttachRequest {
  VolumeKey volume;
  std::string plugin;  // the volume's: what is begun and not finished waits for none but this one
  std::string allocation;
  std::string request;  // empty: the volume's id
  ClaimMode mode = ClaimMode::kWrite;
  Capability capability;
  MountOptions options;
  bool read_only = false;  // it is, too, where the mode, the access mode or a mount flag says so
  Propagation propagation = Propagation::kPrivate;
  std::string attach_path;  // empty: the caller uses AttachmentRecord::source
};

class Attachments {
 public:
  struct Settings {
    std::string host;
    Clock::duration first_retry = std::chrono::seconds(1);
    Clock::duration longest_retry = std::chrono::seconds(60);
    Clock::duration claim_patience = std::chrono::seconds(10);     // how long a retryable claim error is retried,
    Clock::duration claim_pause = std::chrono::milliseconds(100);  // at first after this
    Clock::duration detach_time = std::chrono::minutes(2);         // of one try in the background
    Clock::duration plugin_wait = std::chrono::seconds(5);   // of one look at what is to be restored; then it is the
                                                             // next one's turn
    Clock::duration expand_time = std::chrono::seconds(10);  // of what is attached, and may grow later
    int restorers = 8;                                       // threads for each plugin
  };
  // Told before each step, for whoever shows progress: "claim", "mount", "unmount", "release". May be empty.
  using OnStep = std::function<void(const std::string& step)>;

  // All outlive it.
  Attachments(MountJournal& journal, ClaimBroker& claims, VolumeMounter& volumes, Events& events, Settings settings);
  ~Attachments();  // Stop

  // What is attached already for that allocation and request, in the same way, is OK and gives the same: mounted anew
  // where the kernel does not have it any more. ALREADY_EXISTS: in another way, or the attach path is another's. A
  // failure says which step failed, and what state things are in.
  absl::StatusOr<AttachmentRecord> Attach(const AttachRequest& request, const OnStep& on_step, Clock::time_point until);

  // Not attached is OK. A failure: it is tried again in the background, and the message says so.
  absl::Status Detach(const std::string& allocation, const std::string& request, const OnStep& on_step,
                      Clock::time_point until);

  // A claim that is no attachment's, by who holds it. While the volume is attached the claim stays: released alone it
  // would be given to another while this one still writes. FAILED_PRECONDITION, then.
  absl::Status Release(const VolumeKey& volume, ClaimMode mode, const std::string& allocation, Clock::time_point until);

  // For the start, before anything else is served: see above. It goes on in the background, each plugin's on its own,
  // so that those that hang hold up only theirs; what is to be taken back first, then the rest, those at the shorter
  // paths first: what is attached below another's attach path waits for that one.
  //
  // `is_over`: of what is attached, what is nobody's any more. It is detached instead; who attaches the same again
  // waits for that.
  void Restore(const std::function<bool(const AttachmentRecord&)>& is_over = nullptr);
  void WaitUntilRestored(Clock::time_point until);
  int restoring() const;                               // those that wait for their plugin still
  std::optional<Clock::duration> restored_in() const;  // how long that took; none: it goes on
  int waiting() const;                                 // those of which a try in the background is to come

  void BeginStop();  // all that waits ends, and nothing new begins
  void Stop();       // and waits for what is under way in the background

 private:
  using Key = std::pair<std::string, std::string>;  // allocation and request
  static Key KeyOf(const AttachmentRecord& record) { return {record.allocation, record.request}; }

  absl::StatusOr<KeyedLocks::Hold> Lock(const Key& key, Clock::time_point until);
  absl::StatusOr<KeyedLocks::Hold> LockClaim(const AttachmentRecord& record, Clock::time_point until);
  absl::StatusOr<KeyedLocks::Hold> LockClaim(const VolumeKey& volume, ClaimMode mode, const std::string& allocation,
                                             Clock::time_point until);
  void Tell(const std::string& kind, const AttachmentRecord& record, const absl::Status& status);

  // attach.cc
  absl::StatusOr<AttachmentRecord> AttachAnew(AttachmentRecord record, const OnStep& on_step, Clock::time_point until);
  absl::StatusOr<ClaimAnswer> IntendAndClaim(AttachmentRecord& record, const OnStep& on_step, Clock::time_point until);
  absl::StatusOr<ClaimAnswer> ClaimAgain(const AttachmentRecord& record, const OnStep& on_step,
                                         Clock::time_point until);
  absl::Status WriteIntent(AttachmentRecord& record, Clock::time_point until);
  absl::StatusOr<ClaimAnswer> Claim(const AttachmentRecord& record, Clock::time_point until);
  absl::Status MountClaimed(AttachmentRecord& record, const ClaimAnswer& answer, const OnStep& on_step,
                            Clock::time_point until);
  absl::Status MountAt(AttachmentRecord& record, const ClaimAnswer& answer, Clock::time_point until);
  void ExpandIfOwed(const AttachmentRecord& record, const Volume& volume, Clock::time_point until);
  absl::Status TakeBack(AttachmentRecord& record, const absl::Status& why, const OnStep& on_step,
                        Clock::time_point until);
  absl::Status Revive(AttachmentRecord& record, const OnStep& on_step, Clock::time_point look_until,
                      Clock::time_point until);
  bool Sleep(Clock::duration time);

  // detach.cc
  absl::Status Finish(AttachmentRecord record, const OnStep& on_step, Clock::time_point until);
  bool IsClaimShared(const AttachmentRecord& record) const;
  void Note(AttachmentRecord& record, const absl::Status& problem);

  // restore.cc
  void GiveUp(AttachmentRecord& record);
  void Schedule(const AttachmentRecord& record, Clock::duration pause, Clock::duration delay);
  void Attend(const Key& key, Clock::duration pause);
  absl::Status AttendGuarded(AttachmentRecord& record);
  absl::Status AttendLocked(AttachmentRecord& record);
  void Conclude(const Key& key);

  MountJournal& journal_;
  ClaimBroker& claims_;
  VolumeMounter& volumes_;
  Events& events_;
  const Settings settings_;
  KeyedLocks locks_;

  mutable std::mutex mutex_;  // of all below
  std::condition_variable changed_;
  bool stopping_ = false;
  std::set<Key> scheduled_;  // a try in the background is to come
  std::set<Key> restoring_;  // not concluded yet
  Clock::time_point restore_began_ = {};
  std::optional<Clock::duration> restored_in_;
  std::map<Key, std::vector<AttachmentRecord>> children_;  // at attach paths below that one's: restored after it

  WorkLanes lanes_;
};

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_ATTACH_ATTACHMENTS_H_
