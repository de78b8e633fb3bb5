#include "manager/recovery/rejoin.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/status.h"
#include "manager/csi/csi_channel.h"
#include "manager/state/keys.h"

namespace mooring::manager {
namespace {

constexpr std::chrono::milliseconds kLook{500};

bool Holds(const Claim& claim, const std::string& host) {
  return claim.node == host && claim.state == Claim::State::kTaken;
}

}  // namespace

Rejoin::Rejoin(Collaborators with)
    : with_(std::move(with)), thread_([this](const std::stop_token& stop) { Run(stop); }) {}

void Rejoin::Stop() {
  BeginStop();
  if (thread_.joinable()) thread_.join();
}

void Rejoin::Run(const std::stop_token& stop) {
  std::int64_t checked = 0;  // lease
  std::int64_t told = 0;
  bool restored = false;
  std::string said;
  for (; !stop.stop_requested(); SleepUntil(stop, Clock::now() + kLook)) {
    const std::int64_t lease = with_.store.shared().lease().Number();
    if (lease == 0 || lease == checked) continue;
    if (std::exchange(told, lease) != lease) with_.on_new_lease();
    const absl::Status status = CheckClaims();
    if (!status.ok()) {
      const bool is_news = std::exchange(said, Message(status)) != Message(status);
      // NOT_FOUND: this is the first start of this host, and its record is made in a moment.
      if (is_news && !absl::IsCancelled(status) && !absl::IsNotFound(status)) {
        log::Warning("the claims of this host cannot be checked yet", {{"cause", Message(status)}});
      }
      continue;
    }
    checked = lease;
    with_.on_checked(lease);
    if (!std::exchange(restored, true)) with_.restore();
  }
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
