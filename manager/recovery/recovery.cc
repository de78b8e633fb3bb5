#include "manager/recovery/recovery.h"

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "manager/csi/csi_channel.h"
#include "manager/state/keys.h"

namespace mooring::manager {

Recovery::Recovery(Hosts& hosts, State& shared, Claims& claims, Volumes& volumes, Settings settings)
    : hosts_(hosts),
      shared_(shared),
      claims_(claims),
      volumes_(volumes),
      settings_(std::move(settings)),
      thread_([this](const std::stop_token& stop) { Run(stop); }) {}

void Recovery::Stop() {
  BeginStop();
  if (thread_.joinable()) thread_.join();
}

void Recovery::Run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    for (const HostStatus& host : hosts_.List()) {
      if (stop.stop_requested()) return;
      if (IsDue(host)) Attempt(host);
    }
    SleepUntil(stop, Clock::now() + settings_.look_every);
  }
}

bool Recovery::IsDue(const HostStatus& status) {
  const std::string& name = status.host.name;
  const Clock::duration away = hosts_.AwayFor(name);
  if (status.alive || away == Clock::duration::zero()) {
    attempts_.erase(name);
    return false;
  }
  if (!status.host.lost && away < settings_.recover_after) return false;
  Attempts& attempts = attempts_[name];
  if (status.host.lost && !std::exchange(attempts.was_lost, true)) attempts.next = {};
  return Clock::now() >= attempts.next;
}

// Claims that are left need a controller that is away or refuses, or a person. So the pauses grow.
void Recovery::Attempt(const HostStatus& host) {
  (void)Recover(host.host.name);
  Attempts& attempts = attempts_[host.host.name];
  attempts.next = Clock::now() + attempts.pause;
  attempts.pause = std::min(2 * attempts.pause, settings_.longest_pause);
}

absl::Status Recovery::Recover(const std::string& host) {
  const std::string key = RecoveryKey(host);
  Transaction take;
  take.compares = {{.key = key, .modify_revision = 0}, {.key = LiveKey(host), .modify_revision = 0}};
  take.puts = {{.key = key, .value = hosts_.self(), .ends_with = Transaction::EndsWith::kOwnLease}};
  MOORING_ASSIGN_OR_RETURN(const std::int64_t taken, shared_.Commit(take));
  const Clock::time_point until = Clock::now() + settings_.attempt;
  const absl::Status claims = claims_.Recover(host, until);
  const absl::Status volumes = absl::IsAborted(claims) ? claims : volumes_.Resume(host, until);
  Transaction end;
  end.compares = {{.key = key, .modify_revision = taken}};
  end.deletes = {key};
  (void)shared_.Commit(end);  // otherwise it ends with the lease
  return claims.ok() ? volumes : claims;
}

}  // namespace mooring::manager
