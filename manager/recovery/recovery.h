// Frees what hosts that are away hold: their claims (claim_recovery.h), and volumes whose creation or deletion they
// have not finished. Each host is recovered by one other host at a time, which holds the key RecoveryKey under its
// lease.
//
// A host that is unreachable is recovered after Settings::recover_after; one that is lost, at once.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "manager/claims/claims.h"
#include "manager/csi/csi_channel.h"
#include "manager/hosts/hosts.h"
#include "manager/state/state.h"
#include "manager/volumes/volumes.h"

namespace mooring::manager {

class Recovery {
 public:
  struct Settings {
    Clock::duration recover_after = std::chrono::minutes(5);
    Clock::duration look_every = std::chrono::seconds(1);
    Clock::duration longest_pause = std::chrono::seconds(60);  // between two attempts with the same host
    Clock::duration attempt = std::chrono::seconds(30);        // time for one
  };

  // All outlive it. Starts at once.
  Recovery(Hosts& hosts, State& shared, Claims& claims, Volumes& volumes, Settings settings);

  // Frees now what a host that was declared lost holds. Waits while another host does it. UNAVAILABLE: something is
  // left, and is freed in the background. FAILED_PRECONDITION: the host is back.
  absl::Status RecoverNow(const std::string& host, Clock::time_point until);

  void BeginStop() { thread_.request_stop(); }
  void Stop();

 private:
  struct Attempts {
    BackOff tries;
    bool was_lost = false;
  };

  void Run(const std::stop_token& stop);
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
  std::map<std::string, Attempts> attempts_;  // by host; used by the thread only
  std::jthread thread_;                       // last: it uses all of the above
};

}  // namespace mooring::manager
