// Brings this host back into a shared state: at the start, and whenever it has a new lease. Others may have freed its
// claims since.
//
//   claims that others gave up     their attachments are detached and forgotten
//   claims that are missing        taken again; where that is refused, as above. (A copy of the state was restored.)
//
// At the start, attachments are restored only after that: a lost host must not mount again what another may use.
#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "manager/attach/attachments.h"
#include "manager/state/records_store.h"
#include "manager/volumes/mount_journal.h"

namespace mooring::manager {

class Rejoin {
 public:
  struct Collaborators {
    std::string host;
    RecordsStore& store;
    Attachments& attachments;
    MountJournal& journal;
    std::function<void()> on_new_lease;                  // called first
    std::function<void(std::int64_t lease)> on_checked;  // called after each success, for that lease
    std::function<void()> restore;                       // called once, after the first success
  };

  // All outlive it. Starts at once.
  explicit Rejoin(Collaborators with);

  void BeginStop() { thread_.request_stop(); }
  void Stop();

 private:
  void Run(const std::stop_token& stop);
  absl::Status CheckClaims();

  const Collaborators with_;
  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace mooring::manager
