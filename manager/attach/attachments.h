// Volumes at paths, for allocations: claim, mount, and both undone; restored after a restart. (e)
//
//   Attach  journal: intent ─▶ claim (and controller publish) ─▶ mount ─▶ journal: mounted
//   Detach  journal: unmounting ─▶ unmount ─▶ release ─▶ journal: gone         a failure stays, and is tried again
//
//   at the start, of each record:
//     intent      nobody was told of it: taken back            mounted, HasMount    left as it is
//     unmounting  goes on                                      mounted, no mount    claim and mount again
//
// One writer of the journal. Operations of one (allocation, request) are one at a time. Failed detaches are tried again
// after 1, 2, 4 … 60 s until they succeed: the unmount and the release each time, so that the claim says what is wrong.
#ifndef MOORING_MANAGER_ATTACH_ATTACHMENTS_H_
#define MOORING_MANAGER_ATTACH_ATTACHMENTS_H_

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/keyed_lock.h"
#include "manager/claims/claim_broker.h"
#include "manager/events.h"
#include "manager/volumes/mount_journal.h"
#include "manager/volumes/volume_mounter.h"

namespace mooring::manager {

struct AttachRequest {
  VolumeKey volume;
  std::string allocation;
  std::string request;  // empty: the volume's id
  ClaimMode mode = ClaimMode::kWrite;
  Capability capability;
  MountOptions options;
  bool read_only = false;
  Propagation propagation = Propagation::kPrivate;
  std::string attach_path;  // empty: the caller uses MountRecord::source
};

class Attachments {
 public:
  struct Settings {
    std::string host;
    Clock::duration first_retry = std::chrono::seconds(1);
    Clock::duration longest_retry = std::chrono::seconds(60);
    Clock::duration claim_patience = std::chrono::seconds(10);  // how long a retryable claim error is retried
    Clock::duration detach_time = std::chrono::minutes(2);      // of a detach in the background
    int restorers = 8;                                          // threads at the start
  };
  // Told before each step, for whoever shows progress: "claim", "stage", …
  using OnStep = std::function<void(const std::string& step)>;

  // All outlive it.
  Attachments(MountJournal& journal, ClaimBroker& claims, VolumeMounter& volumes, Events& events, Settings settings);
  ~Attachments();  // Stop

  // What is attached already for that allocation and request, in the same way, is OK and gives the same.
  // ALREADY_EXISTS: in another way, or the attach path is another's. A failure says which step failed, and what state
  // things are in.
  absl::StatusOr<MountRecord> Attach(const AttachRequest& request, const OnStep& on_step, Clock::time_point until);

  // Not attached is OK. A failure: it is tried again in the background, and the message says so.
  absl::Status Detach(const std::string& allocation, const std::string& request, const OnStep& on_step,
                      Clock::time_point until);

  // For the start, before anything else is served: see above. What has to wait for its plugin goes on in the
  // background; returns when every record was looked at once or is being waited for. Plugins that hang hold up only
  // their own.
  void Restore();
  void WaitUntilRestored(Clock::time_point until);
  int restoring() const;  // records that wait for their plugin still

  void Stop();

 private:
  MountJournal& journal_;
  ClaimBroker& claims_;
  VolumeMounter& volumes_;
  Events& events_;
  const Settings settings_;
  KeyedLocks locks_;
};

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_ATTACH_ATTACHMENTS_H_
