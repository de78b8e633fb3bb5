#include "manager/claims/claims.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "base/status.h"
#include "base/text/quote.h"
#include "manager/csi/csi_channel.h"
#include "manager/hosts/host_directory.h"
#include "manager/records/names.h"
#include "manager/state/keys.h"

namespace mooring::manager {
namespace {

// The traits of a healthy controller. All instances of a plugin have the same.
PluginTraits ControllerTraits(const PluginStatus& plugin) {
  for (const InstanceStatus& instance : plugin.instances) {
    if (instance.instance.type == PluginType::kController && instance.fingerprint.healthy) {
      return instance.fingerprint.traits;
    }
  }
  return {};
}

// The last answers of the unhealthy instances.
std::string LastWords(const PluginStatus& plugin, PluginType type) {
  std::string words;
  for (const InstanceStatus& status : plugin.instances) {
    if (status.instance.type != type || status.fingerprint.healthy) continue;
    words += "; " + LastErrorOf(status.instance, status.fingerprint);
  }
  return words;
}

std::string WhyUnschedulable(const PluginStatus& plugin) {
  const bool node = plugin.nodes.healthy == 0;
  const RoleCount& count = node ? plugin.nodes : plugin.controllers;
  return fmt::format("plugin {} has no healthy {} instance ({} expected){}", Quote(plugin.name),
                     node ? "node" : "controller", count.expected,
                     LastWords(plugin, node ? PluginType::kNode : PluginType::kController));
}

// Another writer was faster: start over while there is time.
bool IsWorthStartingOver(const absl::Status& status, Clock::time_point until) {
  return absl::IsAborted(status) && Clock::now() < until;
}

ClaimAnswer WithClaim(ClaimAnswer answer, Claim claim) {
  answer.claim = std::move(claim);
  return answer;
}

bool IsStillTaken(const std::optional<Claim>& now, const Claim& claim) {
  return now && now->state == Claim::State::kTaken && IsSameRecord(*now, claim);
}

absl::Status ReleasedMeanwhile(const Claim& claim) {
  return Aborted("the claim on volume {} was released while it was taken: try again", ToString(claim.volume));
}

}  // namespace

Claims::Claims(RecordsStore& store, PluginDirectory& plugins, HostDirectory& hosts, KeyedLocks& controller_locks,
               Events& events, WorkQueue& queue, Settings settings)
    : store_(store),
      plugins_(plugins),
      hosts_(hosts),
      settings_(std::move(settings)),
      records_(store, events),
      controller_(plugins, controller_locks, settings_.retry),
      exhausted_(records_, hosts_, settings_.now),
      releaser_(records_, controller_, hosts_, queue, settings_) {}

absl::Status Claims::CheckSchedulable(const Volume& volume) {
  const auto plugin = plugins_.Find(volume.plugin);
  if (!plugin.ok()) return WithCode(absl::StatusCode::kUnavailable, plugin.status());
  if (!plugin->schedulable()) return Unavailable(WhyUnschedulable(*plugin));
  if (exhausted_.IsSet(volume, hosts_.self())) {
    return ResourceExhausted("plugin {} said: {}", Quote(volume.plugin), volume.exhausted_words);
  }
  return absl::OkStatus();
}

// A claim that comes or goes afterwards changes the volume, so the commit fails.
absl::StatusOr<ClaimState> Claims::Read(const ClaimRequest& request, Freshness freshness) {
  VolumeUse use;
  if (freshness == Freshness::kMayBeOld && request.seen) {
    use = *request.seen;
  } else {
    MOORING_ASSIGN_OR_RETURN(use, store_.GetVolumeUse(request.volume, freshness));
  }
  if (!use.volume) return NotFound("there is no volume {}", ToString(request.volume));
  ClaimState state;
  state.volume = *std::move(use.volume);
  state.claims = std::move(use.claims);
  std::erase_if(state.claims, [&](const Claim& claim) { return claim.lost && !AreOfOneClaim(claim, request); });
  if (hosts_.is_shared()) {
    state.hosts = hosts_.List();
    if (state.hosts.empty()) return Unavailable("the hosts of the shared state are not known yet: try again");
  }
  state.exhausted = exhausted_.IsSet(state.volume, request.node);
  const auto plugin = plugins_.Find(state.volume.plugin);
  state.schedulable = plugin.ok() && plugin->schedulable();
  state.publishes = plugin.ok() && ControllerTraits(*plugin).publishes;
  if (plugin.ok() && request.node == hosts_.self()) state.node_topology = NodeTopology(*plugin);
  if (!state.schedulable) state.unschedulable = plugin.ok() ? WhyUnschedulable(*plugin) : Message(plugin.status());
  return state;
}

absl::StatusOr<ClaimAnswer> Claims::Take(const ClaimRequest& asked, Clock::time_point until) {
  ClaimRequest request = asked;
  if (request.node.empty()) request.node = hosts_.self();
  const auto grant = GrantClaim(request, until);
  auto answer = grant.ok() ? absl::StatusOr<ClaimAnswer>(grant->answer) : grant.status();
  if (answer.ok() && answer->claim.publish == Claim::Publish::kSent) answer = Publish(*grant, until);
  if (answer.ok() && request.keep && !answer->claim.kept) answer = MarkKept(*std::move(answer));
  const bool refused_for_now = IsWorthAnotherTry(answer.status()) && !absl::IsResourceExhausted(answer.status());
  if (!answer.ok() && !refused_for_now && !absl::IsCancelled(answer.status())) {
    records_.Report(request.volume, request.allocation, true,
                    fmt::format("{} claim refused: {}", ToString(request.mode), Message(answer.status())));
  }
  return answer;
}

absl::StatusOr<Claims::Grant> Claims::GrantClaim(const ClaimRequest& request, Clock::time_point until) {
  for (Freshness freshness = Freshness::kMayBeOld;; freshness = Freshness::kNow) {
    const std::int64_t lease = store_.shared().lease().Number();
    Changes changes;
    auto prepared = Prepare(request, freshness, changes, until);
    const bool commits = prepared.ok() && prepared->by != GrantedBy::kEarlierCall;
    if (!commits && freshness == Freshness::kMayBeOld) {
      // An old view of the hosts may have caused the refusal.
      if (!prepared.ok() && hosts_.is_shared()) hosts_.Refresh().IgnoreError();
      continue;
    }
    MOORING_ASSIGN_OR_RETURN(Grant grant, std::move(prepared));
    grant.answer.lease = lease;
    if (grant.by == GrantedBy::kEarlierCall) return grant;
    Volume& volume = grant.answer.volume;
    Claim& claim = grant.answer.claim;
    // After a power cut the manager has to know what it sent to a controller, and what it answered to a user.
    const bool at_once = request.keep || claim.publish != Claim::Publish::kNone;
    const Durability durability = at_once ? Durability::kSynced : Durability::kOrdered;
    const auto revision = store_.Commit(changes.Put(volume).Put(claim).With(durability));
    if (revision.ok()) {
      volume.revisions.SetStored(*revision);
      claim.revisions.SetStored(*revision);
      records_.Report(claim, false,
                      fmt::format("claimed to {} as {} {}", ToString(claim.mode), ToString(claim.capability.attachment),
                                  ToString(claim.capability.access)));
      return grant;
    }
    if (!IsWorthStartingOver(revision.status(), until)) {
      return Annotate(revision.status(), fmt::format("claim volume {}", ToString(request.volume)));
    }
    if (hosts_.is_shared()) hosts_.Refresh().IgnoreError();  // the record of the host may be the one that changed
  }
}

absl::StatusOr<Claims::Grant> Claims::Prepare(const ClaimRequest& request, Freshness freshness, Changes& changes,
                                              Clock::time_point until) {
  MOORING_ASSIGN_OR_RETURN(ClaimState state, Read(request, freshness));
  RequireHost(state, request.node, changes);
  MOORING_ASSIGN_OR_RETURN(Grant grant, PrepareGrant(request, std::move(state), until));
  // After the read: if others free claims of this host from now on, the commit fails.
  const bool may_be_stale = request.node == hosts_.self() && !request.for_present_mount;
  if (may_be_stale) MOORING_RETURN_IF_ERROR(settings_.check_mounts(request.volume));
  return grant;
}

// The records to commit. GrantedBy::kEarlierCall: the claim stands already, and nothing is to be committed.
absl::StatusOr<Claims::Grant> Claims::PrepareGrant(const ClaimRequest& request, ClaimState state,
                                                   Clock::time_point until) {
  MOORING_ASSIGN_OR_RETURN(const ClaimDecision decision, Decide(request, state));
  MOORING_RETURN_IF_ERROR(CheckSecrets(state.volume));
  Claim claim;
  GrantedBy by = GrantedBy::kThisCall;
  if (decision == ClaimDecision::kHeldAlready) {
    claim = *std::find_if(state.claims.begin(), state.claims.end(),
                          [&](const Claim& held) { return AreOfOneClaim(held, request); });
    if (!claim.past && (claim.kept || !request.keep)) {
      return Grant{{.volume = std::move(state.volume), .claim = std::move(claim)}, GrantedBy::kEarlierCall};
    }
    if (!claim.past) by = GrantedBy::kEarlierCallKeptByThis;
    claim.past = false;  // the allocation exists after all
    claim.past_since.reset();
    claim.problem.clear();
    claim.kept = claim.kept || request.keep;
  } else {
    MOORING_ASSIGN_OR_RETURN(claim, NewClaim(request, state, until));
  }
  if (!state.volume.in_use) state.volume.in_use = request.capability;
  return Grant{{.volume = std::move(state.volume), .claim = std::move(claim)}, by};
}

// A claim is taken only while its host is what the decision took it for: not drained, and with the same lease.
void Claims::RequireHost(const ClaimState& state, const std::string& node, Changes& changes) const {
  const HostStatus* const host = FindHost(state.hosts, node);
  if (host == nullptr) return;
  changes.If(HostStateKey(node), host->host.revisions.modify);
  if (node != hosts_.self()) changes.If(LiveKey(node), host->live_revision);
}

absl::Status Claims::CheckHeld(const ClaimAnswer& answer) {
  Lease& lease = store_.shared().lease();
  if (lease.Number() == answer.lease && Clock::now() < lease.ValidUntil()) return absl::OkStatus();
  const Claim& own = answer.claim;
  MOORING_ASSIGN_OR_RETURN(const auto claim, records_.Find(own.volume, own.mode, own.allocation));
  if (IsStillTaken(claim, own)) return absl::OkStatus();
  return FailedPrecondition("the claim of {} on volume {} was freed while this host had no lease",
                            Quote(own.allocation), ToString(own.volume));
}

absl::StatusOr<bool> Claims::IsHeld(const VolumeKey& volume, ClaimMode mode, const std::string& allocation) {
  MOORING_ASSIGN_OR_RETURN(const auto claim, records_.Find(volume, mode, allocation));
  return claim && hosts_.IsOurs(claim->node) && IsBeforeNodeStep(*claim);
}

absl::StatusOr<Claim> Claims::NewClaim(const ClaimRequest& request, const ClaimState& state, Clock::time_point until) {
  Claim claim;
  claim.volume = request.volume;
  claim.allocation = request.allocation;
  claim.node = request.node;
  claim.mode = request.mode;
  claim.capability = request.capability;
  claim.kept = request.keep;
  claim.taken_at = settings_.now();
  MOORING_ASSIGN_OR_RETURN(claim.external_node_id, ExternalNodeId(request, state, until));
  // Stored as sent before the call: after a crash the claim is unpublished, which is right in either case.
  claim.publish = state.publishes ? Claim::Publish::kSent : Claim::Publish::kNone;
  return claim;
}

// From the request, else from another claim of that node, else from the plugin on this host.
absl::StatusOr<std::string> Claims::ExternalNodeId(const ClaimRequest& request, const ClaimState& state,
                                                   Clock::time_point until) {
  if (!request.external_node_id.empty()) return request.external_node_id;
  for (const Claim& claim : state.claims) {
    if (claim.node == request.node && !claim.external_node_id.empty()) return claim.external_node_id;
  }
  if (request.node != hosts_.self()) {
    return InvalidArgument(
        "the id that plugin {} gives node {} is not known on {}: name it in the request (external_node_id)",
        Quote(state.volume.plugin), Quote(request.node), Quote(hosts_.self()));
  }
  MOORING_ASSIGN_OR_RETURN(const ReadyPlugin node, plugins_.WaitForNode(state.volume.plugin, until));
  return node.fingerprint.node_id;
}

// A failed call must leave no claim that nobody knows of, so a claim that this call took is undone. A claim that an
// earlier call took stays, and the error says so. A stop undoes nothing: the stored claim says that the publish was
// sent, so the same claim continues it, or a release undoes it. If another host has freed the claim meanwhile, nobody
// does.
absl::StatusOr<ClaimAnswer> Claims::Publish(const Grant& grant, Clock::time_point until) {
  const Claim& claim = grant.answer.claim;
  const auto hold = controller_.Lock(claim.volume, until);
  auto answer = hold.ok() ? PublishLocked(grant.answer, until) : absl::StatusOr<ClaimAnswer>(hold.status());
  if (answer.ok() || absl::IsCancelled(answer.status())) return answer;
  switch (grant.by) {
    case GrantedBy::kThisCall:
      return releaser_.RollBack(grant.answer, answer.status(), hold.ok(), until);
    case GrantedBy::kEarlierCallKeptByThis:
      UnmarkKept(claim);
      break;
    case GrantedBy::kEarlierCall:
      break;
  }
  if (hold.ok() && releaser_.UndoIfFreed(grant.answer, answer.status(), until)) return answer;
  return absl::Status(answer.status().code(), Message(answer.status()) + "; the claim was there before, and stays");
}

// Another call of the same claim may have failed, and removed the mark again.
absl::StatusOr<ClaimAnswer> Claims::MarkKept(ClaimAnswer answer) {
  MOORING_ASSIGN_OR_RETURN(const auto claim, records_.Change(answer.claim, [&](Claim& record) {
    return record.state == Claim::State::kTaken && IsSameRecord(record, answer.claim) &&
           !std::exchange(record.kept, true);
  }));
  if (!IsStillTaken(claim, answer.claim)) return ReleasedMeanwhile(answer.claim);
  answer.claim = *claim;
  return answer;
}

// A claim that is published by now may have been reported as kept to another caller, and stays so.
void Claims::UnmarkKept(const Claim& claim) {
  records_
      .Change(claim,
              [&](Claim& record) {
                const bool is_ours = IsSameRecord(record, claim);
                if (!is_ours || record.publish != Claim::Publish::kSent) return false;
                record.kept = false;
                return true;
              })
      .IgnoreError();
}

absl::StatusOr<ClaimAnswer> Claims::PublishLocked(const ClaimAnswer& granted, Clock::time_point until) {
  const Claim& own = granted.claim;
  MOORING_ASSIGN_OR_RETURN(auto claim, records_.Find(own.volume, own.mode, own.allocation));
  if (!IsStillTaken(claim, own)) return ReleasedMeanwhile(own);
  if (claim->publish == Claim::Publish::kDone) return WithClaim(granted, *std::move(claim));

  const auto context = controller_.Publish(WithClaim(granted, *claim), until);
  if (absl::IsResourceExhausted(context.status())) exhausted_.Set(own.volume, own.node, Message(context.status()));
  MOORING_RETURN_IF_ERROR(context.status());
  const auto mark = [&](Claim& record) {
    if (record.state != Claim::State::kTaken || !IsSameRecord(record, own)) return false;
    record.publish = Claim::Publish::kDone;
    record.publish_context = *context;
    return true;
  };
  // If a power cut loses this change, the claim is published again or unpublished. A user's claim must not be lost.
  const Durability durability = claim->kept ? Durability::kSynced : Durability::kOrdered;
  MOORING_ASSIGN_OR_RETURN(claim, records_.Change(*claim, mark, durability));
  if (!IsStillTaken(claim, own)) return ReleasedMeanwhile(own);
  return WithClaim(granted, *std::move(claim));
}

// A failure to store is ignored: the next mount expands again, which changes nothing.
void Claims::NodeExpanded(const VolumeKey& volume, std::uint64_t bytes) {
  const auto mark = [&](Volume& record) {
    if (!record.node_expansion_owed || record.capacity_bytes != bytes) return false;
    record.node_expansion_owed = false;
    return true;
  };
  store_.ChangeVolume(volume, mark).IgnoreError();
}

absl::StatusOr<std::vector<Claim>> Claims::Resume() {
  const auto is_ours = [&](const Claim& claim) { return hosts_.IsOurs(claim.node); };
  MOORING_ASSIGN_OR_RETURN(std::vector<Claim> claims, store_.ListClaims(is_ours));
  MOORING_RETURN_IF_ERROR(releaser_.Resume(claims));
  return claims;
}

absl::Status Claims::Recover(const std::string& host, Clock::time_point until) {
  const auto is_held = [&](const Claim& claim) { return claim.node == host; };
  MOORING_ASSIGN_OR_RETURN(const std::vector<Claim> held, store_.ListClaims(is_held));
  std::set<VolumeKey> volumes;
  for (const Claim& claim : held) volumes.insert(claim.volume);
  absl::Status first;  // a volume with an error does not keep the others
  for (const VolumeKey& volume : volumes) {
    const absl::Status status = GiveUp(volume, host);
    if (absl::IsAborted(status)) return status;
    first.Update(status);
  }
  MOORING_ASSIGN_OR_RETURN(std::vector<Claim> ending, store_.ListClaims(is_held));
  std::erase_if(ending, IsBeforeNodeStep);
  MOORING_RETURN_IF_ERROR(releaser_.Resume(ending));
  releaser_.WaitUntilTried(until);
  return first;
}

// Marks all claims of the host on the volume, with the host's record, in one commit. If one of them stayed, the volume
// would count as in use there, and the controller would not be asked.
absl::Status Claims::GiveUp(const VolumeKey& key, const std::string& name) {
  for (;;) {
    MOORING_ASSIGN_OR_RETURN(const std::optional<KeyValue> live, store_.shared().Get(LiveKey(name)));
    if (live) return Aborted("host {} is back", Quote(name));
    MOORING_ASSIGN_OR_RETURN(Host host, store_.GetHost(name));
    auto volume = store_.GetVolume(key);
    if (absl::IsNotFound(volume.status())) return absl::OkStatus();
    MOORING_RETURN_IF_ERROR(volume.status());
    MOORING_ASSIGN_OR_RETURN(std::vector<Claim> claims, store_.ListClaims(key));
    Changes changes;
    std::vector<Claim> marked;
    for (Claim& claim : claims) {
      if (claim.node != name || !MarkGivenUp(claim, *volume, host)) continue;
      changes.Put(claim);
      marked.push_back(claim);
    }
    if (marked.empty()) return absl::OkStatus();
    if (CountUsing(claims) == 0) volume->in_use.reset();
    host.gave_up_claims = true;
    const absl::Status status = store_.Commit(changes.Put(*volume).Put(host).If(LiveKey(name), 0)).status();
    if (absl::IsAborted(status)) continue;
    MOORING_RETURN_IF_ERROR(status);
    for (const Claim& claim : marked) {
      records_.Report(
          claim, true,
          fmt::format("given up for host {}, which is {}", Quote(name), host.lost ? "lost" : "unreachable"));
    }
    return absl::OkStatus();
  }
}

// Gives whether there is something to store.
bool Claims::MarkGivenUp(Claim& claim, const Volume& volume, const Host& host) {
  if (host.lost) {
    BeginControllerStep(claim);
    return !std::exchange(claim.lost, true);
  }
  return claim.publish != Claim::Publish::kNone && controller_.HasControllerFor(volume) && BeginControllerStep(claim);
}

}  // namespace mooring::manager
