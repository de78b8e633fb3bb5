#include "manager/recovery/recovery.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "manager/csi/csi_channel.h"
#include "manager/state/keys.h"

namespace mooring::manager {
namespace {

constexpr std::chrono::seconds kFirstPause{1}, kLongestPause{60};  // between two attempts with the same host
constexpr std::chrono::seconds kAttempt{30};                       // time for one
constexpr std::chrono::milliseconds kLookAtOther{200};             // while another host recovers it

constexpr std::chrono::milliseconds kLookAtLease{500};

bool Holds(const Claim& claim, const std::string& host) { return claim.node == host && IsBeforeNodeStep(claim); }

}  // namespace

Recovery::Recovery(Hosts& hosts, State& shared, Claims& claims, Volumes& volumes, WorkQueue& queue, Settings settings)
    : hosts_(hosts),
      shared_(shared),
      claims_(claims),
      volumes_(volumes),
      settings_(std::move(settings)),
      work_(queue, {.kind = "recovery", .is_routine = true}) {
  work_.Repeat("hosts that are away", settings_.look_every, [this] { return Look(); });
}

void Recovery::BeginStop() {
  stop_.request_stop();
  work_.BeginStop();
}

void Recovery::Stop() {
  BeginStop();
  work_.Stop();
}

absl::Status Recovery::Look() {
  for (const HostStatus& host : hosts_.List()) {
    if (stop_.stop_requested()) break;
    if (IsDue(host)) Attempt(host);
  }
  return absl::OkStatus();
}

bool Recovery::IsDue(const HostStatus& status) {
  const std::string& name = status.host.name;
  const Clock::duration away = hosts_.AwayFor(name);
  if (status.alive || away == Clock::duration::zero()) {
    attempts_.erase(name);
    return false;
  }
  if (!status.host.lost && away < settings_.recover_after) return false;
  Attempts& attempts = attempts_.try_emplace(name, Attempts{BackOff(kFirstPause, kLongestPause)}).first->second;
  if (status.host.lost && !std::exchange(attempts.was_lost, true)) attempts.tries.TryNow();
  return Clock::now() >= attempts.tries.next_try();
}

// Claims that are left need a controller that is away or refuses, or a person. So the pauses grow.
void Recovery::Attempt(const HostStatus& host) {
  const absl::Status status = Recover(host.host.name, Clock::now() + kAttempt);
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
    const absl::Status status = Recover(host, std::min(until, Clock::now() + kAttempt));
    if (status.ok() || absl::IsCancelled(status)) return status;
    MOORING_RETURN_IF_ERROR(hosts_.Refresh());
    const std::optional<HostStatus> now = hosts_.Find(host);
    if (now && now->alive) return FailedPrecondition("host {} is back, and checks its claims itself", Quote(host));
    if (!absl::IsAborted(status) || Clock::now() + kLookAtOther >= until) {
      return Unavailable("host {} is declared lost, but its claims cannot be freed yet, which is tried again: {}",
                         Quote(host), Message(status));
    }
    SleepUntil(stop_.get_token(), Clock::now() + kLookAtOther);
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

Rejoin::Rejoin(Collaborators with)
    : with_(std::move(with)),
      work_(with_.queue,
            {.kind = "rejoin", .first_retry = kLookAtLease, .longest_retry = kLookAtLease, .is_routine = true}) {
  work_.Repeat("the claims of this host", kLookAtLease, [this] { return Look(); });
}

absl::Status Rejoin::Look() {
  const std::int64_t lease = with_.store.shared().lease().Number();
  // The record of this host may have been damaged, and was made again.
  if (lease == 0 || (lease == checked_ && !with_.gave_up_claims())) return absl::OkStatus();
  if (std::exchange(told_, lease) != lease) with_.on_new_lease();
  absl::Status status = CheckClaims();
  if (!status.ok()) {
    const bool is_news = std::exchange(said_, Message(status)) != Message(status);
    // NOT_FOUND: this is the first start of this host, and its record is made in a moment.
    if (is_news && !absl::IsCancelled(status) && !absl::IsNotFound(status)) {
      log::Warning("the claims of this host cannot be checked yet", {{"cause", Message(status)}});
    }
    return status;
  }
  checked_ = lease;
  with_.on_checked(lease);
  if (!std::exchange(restored_, true)) with_.restore();
  return absl::OkStatus();
}

absl::Status Rejoin::CheckClaims() {
  const std::vector<AttachmentRecord> attached = with_.journal.All();
  MOORING_ASSIGN_OR_RETURN(const Host self, with_.store.GetHost(with_.host));
  MOORING_ASSIGN_OR_RETURN(const std::vector<Claim> claims,
                           with_.store.ListClaims([&](const Claim& claim) { return claim.node == with_.host; }));
  const auto held = [&](const AttachmentRecord& record) {
    // The content of a damaged claim is unknown, so its mount stays.
    if (with_.store.IsUnreadable(ClaimStateKey(record.volume, record.mode, record.allocation))) return true;
    return std::any_of(claims.begin(), claims.end(),
                       [&](const Claim& claim) { return AreOfOneClaim(claim, record) && Holds(claim, with_.host); });
  };
  const auto missing = self.gave_up_claims ? Attachments::Missing::kGivenUp : Attachments::Missing::kToBeTakenAgain;
  MOORING_RETURN_IF_ERROR(with_.attachments.CheckClaims(attached, held, missing));
  if (!self.gave_up_claims) return absl::OkStatus();
  Host checked = self;  // ABORTED: the record has changed, perhaps because more claims were given up
  checked.gave_up_claims = false;
  return with_.store.Commit(Changes().Put(checked)).status();
}

}  // namespace mooring::manager
