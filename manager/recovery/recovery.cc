#include "manager/recovery/recovery.h"

#include <optional>
#include <utility>

#include "base/log.h"
#include "base/status.h"
#include "manager/csi/csi_channel.h"
#include "manager/state/keys.h"

namespace mooring::manager {
namespace {

constexpr std::chrono::seconds kFirstPause{1};  // between two attempts with the same host

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
  const absl::Status status = Recover(host.host.name);
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

absl::Status Recovery::Recover(const std::string& host) {
  const std::string key = RecoveryKey(host);
  Transaction take;
  take.compares = {{.key = key, .modify_revision = 0}, {.key = LiveKey(host), .modify_revision = 0}};
  take.puts = {{.key = key, .value = hosts_.self(), .ends_with = Transaction::EndsWith::kOwnLease}};
  absl::StatusOr<std::int64_t> taken = shared_.Commit(take);
  if (absl::IsAborted(taken.status())) taken = LeftByUs(key);  // an earlier end of the work could not be stored
  MOORING_RETURN_IF_ERROR(taken.status());
  const Clock::time_point until = Clock::now() + settings_.attempt;
  const absl::Status claims = claims_.Recover(host, until);
  const absl::Status volumes = absl::IsAborted(claims) ? claims : volumes_.Resume(host, until);
  Transaction end;
  end.compares = {{.key = key, .modify_revision = *taken}};
  end.deletes = {key};
  (void)shared_.Commit(end);  // otherwise it ends with the lease
  return claims.ok() ? volumes : claims;
}

}  // namespace mooring::manager
