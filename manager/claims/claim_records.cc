#include "manager/claims/claim_records.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "base/text/quote.h"
#include "manager/claims/claim_rules.h"
#include "manager/csi/csi_channel.h"
#include "manager/records/names.h"

namespace mooring::manager {

int CountUsing(const std::vector<Claim>& claims) {
  return static_cast<int>(std::count_if(claims.begin(), claims.end(), [](const Claim& claim) { return !claim.lost; }));
}

bool IsSameRecord(const Claim& a, const Claim& b) { return a.revisions.create == b.revisions.create; }

bool IsBeforeNodeStep(const Claim& claim) {
  return claim.state == Claim::State::kTaken || claim.state == Claim::State::kUnmountFailed;
}

bool NeedsPublish(const Claim& claim, const std::string& external_node_id) {
  return claim.external_node_id == external_node_id && IsBeforeNodeStep(claim) &&
         claim.publish != Claim::Publish::kNone;
}

std::string ClaimName(const Claim& claim) {
  return fmt::format("{} claim of {} on {}", ToString(claim.mode), Quote(claim.allocation), ToString(claim.volume));
}

bool BeginControllerStep(Claim& claim) {
  if (!IsBeforeNodeStep(claim)) return false;
  claim.state = Claim::State::kNodeDetached;
  claim.problem.clear();
  return true;
}

absl::StatusOr<std::optional<Claim>> ClaimRecords::Find(const VolumeKey& volume, ClaimMode mode,
                                                        const std::string& allocation) {
  MOORING_ASSIGN_OR_RETURN(std::vector<Claim> claims, store_.ListClaims(volume));
  for (Claim& claim : claims) {
    if (claim.mode == mode && claim.allocation == allocation) return std::move(claim);
  }
  return std::nullopt;
}

absl::StatusOr<std::optional<Claim>> ClaimRecords::Change(const Claim& claim, const std::function<bool(Claim&)>& change,
                                                          Durability durability) {
  for (;;) {
    MOORING_ASSIGN_OR_RETURN(std::optional<Claim> current, Find(claim.volume, claim.mode, claim.allocation));
    if (!current || !change(*current)) return current;
    const auto revision = store_.Commit(Changes().Put(*current).With(durability));
    if (absl::IsAborted(revision.status())) continue;
    MOORING_RETURN_IF_ERROR(revision.status());
    current->revisions.SetStored(*revision);
    return current;
  }
}

void ClaimRecords::Report(const VolumeKey& volume, const std::string& allocation, bool bad, const std::string& text) {
  events_.Add({.bad = bad, .kind = "claim", .volume = volume, .allocation = allocation, .text = text});
}

// A node of a state that is not shared may have any name.
bool ExhaustedMarks::IsOf(const Volume& volume, const std::string& host) const {
  return !hosts_.is_shared() || volume.exhausted_host == host;
}

bool ExhaustedMarks::IsSet(const Volume& volume, const std::string& host) const {
  return IsOf(volume, host) && IsExhausted(volume, now_());
}

void ExhaustedMarks::Set(const VolumeKey& volume, const std::string& host, const std::string& words) {
  bool is_new = false;
  const auto mark = [&](Volume& record) {
    is_new = !IsSet(record, host) || WithoutTries(record.exhausted_words) != WithoutTries(words);
    record.exhausted_at = now_();
    record.exhausted_host = host;
    record.exhausted_words = words;
    return true;
  };
  const absl::Status status = records_.store().ChangeVolume(volume, mark).status();
  if (status.ok() && !is_new) return;
  records_.Report(volume, "", true,
                  status.ok()
                      ? fmt::format("exhausted: {}", words)
                      : fmt::format("exhausted ({}), but the mark cannot be stored: {}", words, Message(status)));
}

void ExhaustedMarks::Clear(const std::string& plugin) {
  const auto volumes = records_.store().ListVolumes();
  if (!volumes.ok()) return;  // the marks expire anyway
  const auto clear = [&](Volume& record) {
    if (!IsOf(record, hosts_.self())) return false;
    record.exhausted_at.reset();
    record.exhausted_host.clear();
    record.exhausted_words.clear();
    return true;
  };
  for (const Volume& volume : *volumes) {
    if (volume.plugin != plugin || !volume.exhausted_at || !IsOf(volume, hosts_.self())) continue;
    const absl::Status status = records_.store().ChangeVolume(volume.key, clear).status();
    records_.Report(volume.key, "", !status.ok(),
                    status.ok() ? "no longer exhausted: its plugin's health changed"
                                : fmt::format("still marked as exhausted: {}", Message(status)));
  }
}

}  // namespace mooring::manager
