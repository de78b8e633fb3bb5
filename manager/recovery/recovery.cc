#include "manager/recovery/recovery.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>

#include "base/log.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "manager/csi/csi_channel.h"
#include "manager/state/keys.h"

namespace mooring::manager {
namespace {

constexpr std::chrono::seconds kFirstPause{1};          // between two attempts with the same host
constexpr std::chrono::milliseconds kLookAtOther{200};  // while another host recovers it

}  // namespace

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
  Attempts& attempts =
      attempts_.try_emplace(name, Attempts{BackOff(kFirstPause, settings_.longest_pause)}).first->second;
  if (status.host.lost && !std::exchange(attempts.was_lost, true)) attempts.tries.TryNow();
  return Clock::now() >= attempts.tries.next_try();
}

// Claims that are left need a controller that is away or refuses, or a person. So the pauses grow.
void Recovery::Attempt(const HostStatus& host) {
  const absl::Status status = Recover(host.host.name, Clock::now() + settings_.attempt);
  if (!status.ok() && !absl::IsAborted(status) && !absl::IsCancelled(status)) {
    log::Warning("what a host that is away holds cannot be freed yet",
                 {{"host", host.host.name}, {"cause", Message(status)}});
  }
  attempts_.at(host.host.name).tries.Fail();
}

absl::StatusOr<std::int64_t> Recovery::LeftByUs(const std::string& key) {
  MOORING_ASSIGN_OR_RETURN(const std::optional<KeyValue> found, shared_.Get(key));
  if (found && found->value == hosts_.self()) return found->modify_revision;
  return Aborted("another host recovers it");
}

absl::Status Recovery::RecoverNow(const std::string& host, Clock::time_point until) {
  for (;;) {
    const absl::Status status = Recover(host, std::min(until, Clock::now() + settings_.attempt));
    if (status.ok() || absl::IsCancelled(status)) return status;
    MOORING_RETURN_IF_ERROR(hosts_.Refresh());
    const std::optional<HostStatus> now = hosts_.Find(host);
    if (now && now->alive) return FailedPrecondition("host {} is back, and checks its claims itself", Quote(host));
    if (!absl::IsAborted(status) || Clock::now() + kLookAtOther >= until) {
      return Unavailable("host {} is declared lost, but its claims cannot be freed yet, which is tried again: {}",
                         Quote(host), Message(status));
    }
    SleepUntil(thread_.get_stop_token(), Clock::now() + kLookAtOther);
  }
}

absl::Status Recovery::Recover(const std::string& host, Clock::time_point until) {
  const std::lock_guard<std::mutex> one(one_at_a_time_);
  const std::string key = RecoveryKey(host);
  Transaction take;
  take.compares = {{.key = key, .modify_revision = 0}, {.key = LiveKey(host), .modify_revision = 0}};
  take.puts = {{.key = key, .value = hosts_.self(), .ends_with = Transaction::EndsWith::kOwnLease}};
  absl::StatusOr<std::int64_t> taken = shared_.Commit(take);
  if (absl::IsAborted(taken.status())) taken = LeftByUs(key);  // an earlier end of the work could not be stored
  MOORING_RETURN_IF_ERROR(taken.status());
  const absl::Status claims = claims_.Recover(host, until);
  const absl::Status volumes = absl::IsAborted(claims) ? claims : volumes_.Resume(host);
  volumes_.WaitUntilTried(until);
  Transaction end;
  end.compares = {{.key = key, .modify_revision = *taken}};
  end.deletes = {key};
  (void)shared_.Commit(end);  // otherwise it ends with the lease
  return claims.ok() ? volumes : claims;
}

}  // namespace mooring::manager
