// The claims of a host that is away: other hosts free them, and it checks them when it is back.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "manager/attach/attachments.h"
#include "manager/claims/claims.h"
#include "manager/csi/csi_channel.h"
#include "manager/hosts/hosts.h"
#include "manager/state/records_store.h"
#include "manager/state/state.h"
#include "manager/volumes/attachment_journal.h"
#include "manager/volumes/volumes.h"
#include "manager/work/work_queue.h"

namespace mooring::manager {

// Ends what hosts that are away hold: gives up their claims (Claims::Recover), and finishes the creations and deletions
// of volumes that they have begun. Each host is recovered by one other host at a time, which holds the key RecoveryKey
// under its lease. The claims that are given up are freed by the host that gave them up, also after it has let go of
// that key. Two hosts may do that at the same time: CSI allows a repeated ControllerUnpublishVolume, and the record is
// deleted by its revision.
//
// A host that is unreachable is recovered after Settings::recover_after; one that is lost, at once.
class Recovery {
 public:
  struct Settings {
    Clock::duration recover_after = std::chrono::minutes(5);
    Clock::duration look_every = std::chrono::seconds(1);
  };

  // All outlive it. Starts at once.
  Recovery(Hosts& hosts, State& shared, Claims& claims, Volumes& volumes, WorkQueue& queue, Settings settings);
  ~Recovery() { Stop(); }

  // Gives up now what a host that was declared lost holds, and tries once to free it. Waits while another host does it.
  // OK: no claim of the host excludes anybody; those whose controller could not be asked are freed in the background.
  // UNAVAILABLE: some claims could not be given up, which is tried again. FAILED_PRECONDITION: the host is back.
  absl::Status RecoverNow(const std::string& host, Clock::time_point until);

  void BeginStop();
  void Stop();

 private:
  struct Attempts {
    BackOff tries;
    bool was_lost = false;
  };

  absl::Status Look();
  bool IsDue(const HostStatus& host);
  void Attempt(const HostStatus& host);
  absl::Status Recover(const std::string& host, Clock::time_point until);
  absl::StatusOr<std::int64_t> LeftByUs(const std::string& key);

  Hosts& hosts_;
  State& shared_;
  Claims& claims_;
  Volumes& volumes_;
  const Settings settings_;
  std::mutex one_at_a_time_;                  // held by Recover
  std::map<std::string, Attempts> attempts_;  // by host; used by Look only
  std::stop_source stop_;
  WorkKind work_;  // last: its attempts use all of the above
};

// Brings this host back into a shared state: at the start, and whenever it has a new lease. Others may have freed its
// claims since.
//
//   claims that others gave up     their attachments are detached and forgotten
//   claims that are missing        taken again; where that is refused, as above. (A copy of the state was restored.)
//
// At the start, attachments are restored only after that: a lost host must not mount again what another may use.
class Rejoin {
 public:
  struct Collaborators {
    std::string host;
    RecordsStore& store;
    Attachments& attachments;
    AttachmentJournal& journal;
    std::function<bool()> gave_up_claims;                // Host::gave_up_claims, perhaps old
    std::function<void()> on_new_lease;                  // called first
    std::function<void(std::int64_t lease)> on_checked;  // called after each success, for that lease
    std::function<void()> restore;                       // called once, after the first success
    WorkQueue& queue;
  };

  // All outlive it. Starts at once.
  explicit Rejoin(Collaborators with);
  ~Rejoin() { Stop(); }

  void BeginStop() { work_.BeginStop(); }
  void Stop() { work_.Stop(); }

 private:
  absl::Status Look();
  absl::Status CheckClaims();

  const Collaborators with_;
  std::int64_t checked_ = 0;  // lease
  std::int64_t told_ = 0;     // lease
  bool restored_ = false;
  std::string said_;
  WorkKind work_;  // last: its attempts use all of the above
};

}  // namespace mooring::manager
