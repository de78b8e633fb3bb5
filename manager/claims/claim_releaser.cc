#include "manager/claims/claim_releaser.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/status.h"
#include "base/text/quote.h"
#include "base/text/terminal_text.h"
#include "manager/records/names.h"

namespace mooring::manager {
namespace {

Claim ClaimNamed(const VolumeKey& volume, ClaimMode mode, const std::string& allocation) {
  Claim claim;
  claim.volume = volume;
  claim.mode = mode;
  claim.allocation = allocation;
  return claim;
}

// Whether the record of `claim` is still there, and its own steps unpublish the volume.
bool StillUnpublishes(const std::optional<Claim>& record, const Claim& claim) {
  return record && IsSameRecord(*record, claim) && record->state != Claim::State::kControllerDetached;
}

std::optional<Claim> FindRecord(const std::vector<Claim>& claims, const Claim& claim) {
  const auto found =
      std::find_if(claims.begin(), claims.end(), [&](const Claim& other) { return AreOfOneClaim(other, claim); });
  return found == claims.end() ? std::nullopt : std::optional<Claim>(*found);
}

// Whether another claim of the same node still needs the volume published there.
bool IsPublishedForAnother(const std::vector<Claim>& claims, const Claim& claim) {
  return std::any_of(claims.begin(), claims.end(), [&](const Claim& other) {
    return !AreOfOneClaim(other, claim) && NeedsPublish(other, claim.external_node_id);
  });
}

}  // namespace

ClaimReleaser::ClaimReleaser(ClaimRecords& records, ControllerPublisher& controller, HostDirectory& hosts,
                             WorkQueue& queue, ClaimSettings settings)
    : records_(records),
      controller_(controller),
      hosts_(hosts),
      settings_(std::move(settings)),
      undo_(records.store(), controller, queue, settings_.first_retry),
      work_(queue, {.kind = "claim", .width = 2, .first_retry = settings_.first_retry}),
      rollbacks_(queue, {.kind = "rollback", .first_retry = settings_.first_retry}) {}

absl::Status ClaimReleaser::Release(const VolumeKey& volume, ClaimMode mode, const std::string& allocation,
                                    const absl::Status& node_outcome, Clock::time_point until) {
  const Claim claim = ClaimNamed(volume, mode, allocation);
  const auto may_release = [&](const Claim& record) {
    return !record.kept && IsBeforeNodeStep(record) && hosts_.IsOurs(record.node);
  };
  if (node_outcome.ok()) {
    MOORING_ASSIGN_OR_RETURN(const auto left, FreeUnpublished(claim, may_release, Durability::kOrdered));
    if (!left) return absl::OkStatus();
  }
  bool is_new = false;
  MOORING_ASSIGN_OR_RETURN(const auto changed, records_.Change(claim, [&](Claim& record) {
    is_new = false;
    if (!may_release(record)) return false;
    if (node_outcome.ok()) return BeginControllerStep(record);
    is_new = std::exchange(record.state, Claim::State::kUnmountFailed) != Claim::State::kUnmountFailed ||
             WithoutTries(record.problem) != WithoutTries(Message(node_outcome));
    if (is_new) record.problem = Message(node_outcome);
    return is_new;
  }));
  if (!changed || !hosts_.IsOurs(changed->node)) return absl::OkStatus();
  if (changed->kept && IsBeforeNodeStep(*changed)) return absl::OkStatus();
  if (node_outcome.ok()) return FinishOrOwe(*changed, Durability::kOrdered, until);
  if (is_new)
    records_.Report(*changed, true,
                    fmt::format("not released, because the node still has it: {}", Message(node_outcome)));
  return absl::OkStatus();
}

absl::Status ClaimReleaser::ReleaseKept(const VolumeKey& volume, ClaimMode mode, const std::string& allocation,
                                        Clock::time_point until) {
  const Claim claim = ClaimNamed(volume, mode, allocation);
  const auto may_release = [&](const Claim& record) { return IsBeforeNodeStep(record) && hosts_.IsOurs(record.node); };
  MOORING_ASSIGN_OR_RETURN(const auto left, FreeUnpublished(claim, may_release, Durability::kSynced));
  if (!left) return absl::OkStatus();
  absl::Status elsewhere;
  MOORING_ASSIGN_OR_RETURN(const auto changed, records_.Change(claim, [&](Claim& record) {
    elsewhere = CheckOurs(record);
    return elsewhere.ok() && BeginControllerStep(record);
  }));
  MOORING_RETURN_IF_ERROR(elsewhere);
  return changed ? FinishOrOwe(*changed, Durability::kSynced, until) : absl::OkStatus();
}

// A claim that its controller does not know needs no steps: it is deleted at once.
absl::StatusOr<std::optional<Claim>> ClaimReleaser::FreeUnpublished(
    const Claim& claim, const std::function<bool(const Claim&)>& may_release, Durability durability) {
  const auto may_free = [&](const Claim& record) {
    return record.publish == Claim::Publish::kNone && may_release(record);
  };
  return FreeIf(claim, may_free, durability);
}

// Only the node's own manager knows whether the volume is still mounted there.
absl::Status ClaimReleaser::CheckOurs(const Claim& claim) const {
  if (hosts_.IsOurs(claim.node)) return absl::OkStatus();
  return FailedPrecondition(
      "the claim of {} on volume {} is one of host {}: release it there; if nothing runs on that host any more, use "
      "'mooring host lost {}'",
      Quote(claim.allocation), ToString(claim.volume), Quote(claim.node), ShellQuote(claim.node));
}

absl::Status ClaimReleaser::FinishOrOwe(const Claim& claim, Durability durability, Clock::time_point until) {
  const absl::Status status = Finish(claim, durability, until);
  return absl::IsUnavailable(status) ? absl::OkStatus() : status;
}

absl::Status ClaimReleaser::Finish(const Claim& claim, Durability durability, Clock::time_point until) {
  const absl::StatusOr<KeyedLocks::Hold> hold = controller_.Lock(claim.volume, until);
  const absl::Status status = hold.ok() ? TryToFinish(claim, durability, until) : hold.status();
  OweIfFailed(claim, status);
  return status;
}

absl::Status ClaimReleaser::FinishLocked(const Claim& claim, Durability durability, Clock::time_point until) {
  const absl::Status status = TryToFinish(claim, durability, until);
  OweIfFailed(claim, status);
  return status;
}

void ClaimReleaser::OweIfFailed(const Claim& claim, const absl::Status& status) {
  if (status.ok() || absl::IsCancelled(status)) return;
  const auto volume = records_.store().GetVolume(claim.volume);
  Claim failed = claim;
  failed.problem = Message(status);
  Owe(failed, volume.ok() ? volume->plugin : "", settings_.first_retry);
}

void ClaimReleaser::Owe(const Claim& claim, const std::string& plugin, Clock::duration delay) {
  work_.Push({.key = ClaimName(claim),
              .lane = plugin,
              .attempt = [this, claim, plugin] { return Attempt(claim, plugin); },
              .problem = claim.problem},
             delay);
}

absl::Status ClaimReleaser::Resume(const std::vector<Claim>& claims) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<Volume> volumes, records_.store().ListVolumes());
  std::map<VolumeKey, std::string> plugin_of;
  for (const Volume& volume : volumes) plugin_of[volume.key] = volume.plugin;
  for (const Claim& claim : claims) {
    if (!IsBeforeNodeStep(claim) || claim.past) Owe(claim, plugin_of[claim.volume], {});
  }
  return absl::OkStatus();
}

// Only the claim's name counts: the record may be another one by now.
absl::Status ClaimReleaser::Attempt(const Claim& named, const std::string& plugin) {
  MOORING_ASSIGN_OR_RETURN(auto claim, records_.Find(named.volume, named.mode, named.allocation));
  if (claim && IsBeforeNodeStep(*claim)) {
    if (!claim->past || !claim->past_since || !hosts_.IsOurs(claim->node)) return absl::OkStatus();
    const auto age = settings_.now() - *claim->past_since;
    if (age < settings_.past_age) {
      Owe(*claim, plugin, settings_.past_age - age);
      return absl::OkStatus();
    }
    MOORING_ASSIGN_OR_RETURN(claim, EndPast(*claim));
  }
  if (!claim || IsBeforeNodeStep(*claim)) return absl::OkStatus();
  const Clock::time_point until = Clock::now() + ControllerPublisher::kAttempt;
  MOORING_ASSIGN_OR_RETURN(const KeyedLocks::Hold hold, controller_.Lock(claim->volume, until));
  return TryToFinish(*claim, Durability::kOrdered, until);
}

// The claim of an allocation that is gone, once nothing is mounted for it. FAILED_PRECONDITION: it is mounted.
absl::StatusOr<std::optional<Claim>> ClaimReleaser::EndPast(const Claim& claim) {
  const bool mounted = settings_.is_mounted(claim);
  const std::string problem = fmt::format(
      "its allocation is gone, but node {} still has it mounted: it is freed when it is detached", Quote(claim.node));
  MOORING_ASSIGN_OR_RETURN(const auto changed, records_.Change(claim, [&](Claim& record) {
    if (!IsSameRecord(record, claim) || !record.past) return false;  // claimed again since
    if (!mounted) return BeginControllerStep(record);
    return std::exchange(record.problem, problem) != problem;
  }));
  if (mounted && changed && changed->past) return FailedPrecondition("{}", problem);
  return changed;
}

absl::Status ClaimReleaser::TryToFinish(const Claim& claim, Durability durability, Clock::time_point until) {
  MOORING_ASSIGN_OR_RETURN(const VolumeUse use, records_.store().GetVolumeUse(claim.volume));
  const std::optional<Claim> current = FindRecord(use.claims, claim);
  // Done, or claimed again since.
  if (!current || IsBeforeNodeStep(*current) || !IsSameRecord(*current, claim)) return absl::OkStatus();
  if (current->state == Claim::State::kNodeDetached && current->publish != Claim::Publish::kNone) {
    MOORING_RETURN_IF_ERROR(Unpublish(use, *current, until));
  }
  return Free(*current, durability);
}

// The host of the claim may be back, and have freed it or taken another one by the next try.
absl::Status ClaimReleaser::Unpublish(const VolumeUse& use, const Claim& claim, Clock::time_point until) {
  bool is_needed = use.volume.has_value();  // without its record, the plugin's id of the volume is unknown
  const auto may_call = [&]() -> absl::Status {
    MOORING_ASSIGN_OR_RETURN(const VolumeUse now, records_.store().GetVolumeUse(claim.volume));
    is_needed = StillUnpublishes(FindRecord(now.claims, claim), claim) && !IsPublishedForAnother(now.claims, claim);
    return is_needed ? absl::OkStatus() : FailedPrecondition("the volume is not to be unpublished any more");
  };
  absl::Status status;
  if (is_needed && !IsPublishedForAnother(use.claims, claim)) {
    status = controller_.Unpublish(*use.volume, claim, until, may_call);
  }
  if (is_needed) MOORING_RETURN_IF_ERROR(OutcomeOf(claim, status));
  // If a power cut loses this change, the call is repeated, which CSI allows.
  const auto mark = [&](Claim& record) {
    if (!IsSameRecord(record, claim)) return false;
    record.state = Claim::State::kControllerDetached;
    record.problem.clear();
    return true;
  };
  return records_.Change(claim, mark, Durability::kOrdered).status();
}

absl::Status ClaimReleaser::OutcomeOf(const Claim& claim, absl::Status unpublished) {
  // CSI 1.12, ControllerUnpublishVolume: without an unmount at the node, NOT_FOUND does not mean that it is detached.
  // A claim of this host that another one gave up may still be mounted here.
  const auto has_ended_use = [&] {
    return claim.lost || (hosts_.IsOurs(claim.node) && !settings_.is_still_mounted(claim));
  };
  if (absl::IsNotFound(unpublished) && has_ended_use()) return absl::OkStatus();
  // A controller that refused both cannot serve the volume on this node, so there is nothing to undo.
  if (claim.publish == Claim::Publish::kRefused && IsRefusal(unpublished)) return absl::OkStatus();
  if (unpublished.ok() || absl::IsCancelled(unpublished)) return unpublished;
  MOORING_RETURN_IF_ERROR(StoreProblem(claim, Message(unpublished)));
  return IsWorthAnotherTry(unpublished) ? WithCode(absl::StatusCode::kUnavailable, unpublished) : unpublished;
}

// Stores and reports a problem once, however often the same step fails.
absl::Status ClaimReleaser::StoreProblem(const Claim& claim, const std::string& problem) {
  bool is_new = false;
  MOORING_RETURN_IF_ERROR(records_
                              .Change(claim,
                                      [&](Claim& record) {
                                        is_new = IsSameRecord(record, claim) &&
                                                 WithoutTries(record.problem) != WithoutTries(problem);
                                        if (is_new) record.problem = problem;
                                        return is_new;
                                      })
                              .status());
  if (is_new) records_.Report(claim, true, fmt::format("not freed yet: {}", problem));
  return absl::OkStatus();
}

// Deletes the record of `claim`, if it exists and `may_free` holds for it, and gives it. The last claim of a volume
// also clears its mode in use.
absl::StatusOr<std::optional<Claim>> ClaimReleaser::FreeIf(const Claim& claim,
                                                           const std::function<bool(const Claim&)>& may_free,
                                                           Durability durability) {
  for (;;) {
    MOORING_ASSIGN_OR_RETURN(VolumeUse use, records_.store().GetVolumeUse(claim.volume));
    const std::optional<Claim> current = FindRecord(use.claims, claim);
    if (!current) return std::nullopt;
    if (!may_free(*current)) return current;
    Changes changes;
    changes.Delete(*current).With(durability);
    if (use.volume) {
      if (CountUsing(use.claims) == (current->lost ? 0 : 1)) use.volume->in_use.reset();
      changes.Put(*use.volume);
    }
    const absl::Status status = records_.store().Commit(changes).status();
    if (absl::IsAborted(status)) continue;
    MOORING_RETURN_IF_ERROR(status);
    records_.Report(claim, false, fmt::format("{} claim freed", ToString(claim.mode)));
    return std::nullopt;
  }
}

absl::Status ClaimReleaser::Free(const Claim& claim, Durability durability) {
  return FreeIf(
             claim, [&](const Claim& current) { return IsSameRecord(current, claim); }, durability)
      .status();
}

absl::Status ClaimReleaser::RollBack(const ClaimAnswer& answer, const absl::Status& why, bool locked,
                                     Clock::time_point until) {
  const Claim& claim = answer.claim;
  const auto marked = MarkFailed(claim, why);
  if (!marked.ok()) {
    const auto mark_later = [this, answer, why]() -> absl::Status {
      MOORING_ASSIGN_OR_RETURN(const auto later, MarkFailed(answer.claim, why));
      if (!StillUnpublishes(later, answer.claim) && !IsRefusal(why)) undo_.Owe(answer, why, {});
      return later ? Resume({*later}) : absl::OkStatus();
    };
    rollbacks_.Push({.key = ClaimName(claim),
                     .lane = answer.volume.plugin,
                     .attempt = mark_later,
                     .problem = Message(marked.status())},
                    settings_.first_retry);
    return Annotate(why, fmt::format("(and taking it back failed: {})", Message(marked.status())));
  }
  if (locked && !StillUnpublishes(*marked, claim)) undo_.Undo(answer, why, until);
  const absl::Status undone = !*marked ? absl::OkStatus()
                              : locked ? FinishLocked(**marked, Durability::kSynced, until)
                                       : Resume({**marked});
  if (undone.ok() || absl::IsUnavailable(undone)) return why;
  return Annotate(why, fmt::format("(and taking it back failed: {})", Message(undone)));
}

bool ClaimReleaser::UndoIfFreed(const ClaimAnswer& answer, const absl::Status& why, Clock::time_point until) {
  const auto now = records_.Find(answer.claim.volume, answer.claim.mode, answer.claim.allocation);
  if (!now.ok() || StillUnpublishes(*now, answer.claim)) return false;
  undo_.Undo(answer, why, until);
  return true;
}

// A claim that was published since, or replaced by a new record, has an owner and is left alone.
absl::StatusOr<std::optional<Claim>> ClaimReleaser::MarkFailed(const Claim& claim, const absl::Status& why) {
  return records_.Change(claim, [&](Claim& record) {
    if (!IsSameRecord(record, claim) || record.state != Claim::State::kTaken ||
        record.publish != Claim::Publish::kSent) {
      return false;
    }
    record.state = Claim::State::kNodeDetached;
    record.problem = Message(why);
    if (IsRefusal(why)) record.publish = Claim::Publish::kRefused;
    return true;
  });
}

bool ClaimReleaser::IsRollbackOwed(const VolumeKey& volume, ClaimMode mode, const std::string& allocation) {
  return rollbacks_.Has(ClaimName(ClaimNamed(volume, mode, allocation)));
}

absl::Status ClaimReleaser::AllocationGone(const std::string& allocation) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<Claim> claims, records_.store().ListClaims([&](const Claim& c) {
    return c.allocation == allocation && !c.past;
  }));
  std::vector<Claim> ended;
  for (const Claim& claim : claims) {
    MOORING_ASSIGN_OR_RETURN(const auto changed, records_.Change(claim, [&](Claim& record) {
      if (record.past) return false;
      record.past = true;
      record.past_since = settings_.now();
      return true;
    }));
    if (!changed) continue;
    records_.Report(*changed, false, "its allocation is gone: a past claim, freed later");
    ended.push_back(*changed);
  }
  return Resume(ended);
}

absl::Status ClaimReleaser::Force(const VolumeKey& volume, const IsMounted& is_mounted, Clock::time_point until) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<Claim> claims, records_.store().ListClaims(volume));
  for (const Claim& claim : claims) {
    if (!claim.lost) MOORING_RETURN_IF_ERROR(CheckOurs(claim));
    const bool alive = !claim.past && claim.state == Claim::State::kTaken;
    if (!alive && !is_mounted(claim)) continue;
    return FailedPrecondition("volume {} cannot be released by force: allocation {} on {} {}", ToString(volume),
                              Quote(claim.allocation), Quote(claim.node),
                              alive ? "is alive" : "is gone, but the volume is still mounted there");
  }
  absl::Status first;
  for (const Claim& claim : claims) {
    MOORING_ASSIGN_OR_RETURN(const auto changed, records_.Change(claim, [](Claim& record) {
      const bool alive = !record.past && record.state == Claim::State::kTaken;
      return !alive && BeginControllerStep(record);
    }));
    if (changed) first.Update(FinishByForce(*changed, until));
  }
  return first;
}

// The plugin is gone, or only the lost host had a controller for this volume.
bool ClaimReleaser::HasLostItsController(const Claim& claim, const Volume& volume) const {
  if (controller_.IsGone(volume.plugin)) return true;
  return claim.lost && controller_.HasController(volume.plugin) && !controller_.HasControllerFor(volume);
}

// A person has decided, so a controller that refuses, or that no host has any more, keeps the claim no longer. A claim
// that is freed so may still be published at the storage, which then refuses other nodes by itself. Any other error may
// come half-way (IsRefusal), so the node may still have the volume.
absl::Status ClaimReleaser::FinishByForce(const Claim& claim, Clock::time_point until) {
  const absl::Status status = Finish(claim, Durability::kSynced, until);
  if (status.ok() || absl::IsCancelled(status)) return status;
  if (!IsRefusal(status)) {
    const auto volume = records_.store().GetVolume(claim.volume);
    if (!volume.ok() || !HasLostItsController(claim, *volume)) {
      return Annotate(status,
                      fmt::format("the claim of {} stays, because it is unknown whether {} still has the volume; "
                                  "its release is repeated",
                                  Quote(claim.allocation), Quote(claim.node)));
    }
  }
  MOORING_RETURN_IF_ERROR(Free(claim, Durability::kSynced));
  records_.Report(claim, true, fmt::format("freed by force, without its controller: {}", Message(status)));
  return absl::OkStatus();
}

}  // namespace mooring::manager
