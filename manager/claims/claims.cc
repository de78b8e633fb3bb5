#include "manager/claims/claims.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "base/text/quote.h"
#include "manager/csi/csi_volume.h"
#include "manager/plugins/controller_call.h"
#include "manager/records/names.h"

namespace mooring::manager {
namespace {

// Of the controllers that are healthy: what they can, they all can.
PluginTraits ControllerTraits(const PluginStatus& plugin) {
  for (const InstanceStatus& instance : plugin.instances) {
    if (instance.instance.type == PluginType::kController && instance.fingerprint.healthy) {
      return instance.fingerprint.traits;
    }
  }
  return {};
}

// What those instances said that could not serve.
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

// All that is published on a node is published alike, in the mode in use: a plugin has to refuse another one.
csi::v1::ControllerPublishVolumeRequest PublishRequest(const ClaimAnswer& taken, const PluginTraits& traits) {
  const auto& [volume, claim] = taken;
  const Capability capability = volume.in_use.value_or(claim.capability);
  csi::v1::ControllerPublishVolumeRequest request;
  request.set_volume_id(IdForPlugin(volume));
  request.set_node_id(claim.external_node_id);
  *request.mutable_volume_capability() = ToCsi(capability, volume.mount_options, traits.controller_single_writer);
  volume.secrets.CopyTo(*request.mutable_secrets());
  request.mutable_volume_context()->insert(volume.context.begin(), volume.context.end());
  request.set_readonly(IsReader(capability.access) && traits.publishes_read_only);
  return request;
}

// A conflict with another writer: starting over is worth it while there is time.
bool StartOver(const absl::Status& status, Clock::time_point until) {
  return absl::IsAborted(status) && Clock::now() < until;
}

}  // namespace

Claims::Claims(RecordsStore& store, PluginDirectory& plugins, KeyedLocks& controller_locks, Events& events,
               Settings settings)
    : store_(store),
      plugins_(plugins),
      controller_locks_(controller_locks),
      events_(events),
      settings_(std::move(settings)) {}

absl::Status Claims::CheckSchedulable(const Volume& volume) {
  const auto plugin = plugins_.Find(volume.plugin);
  if (!plugin.ok()) return WithCode(absl::StatusCode::kUnavailable, plugin.status());
  if (!plugin->schedulable()) return Unavailable(WhyUnschedulable(*plugin));
  if (IsExhausted(volume, settings_.now(), settings_.exhausted_age)) {
    return ResourceExhausted(fmt::format("plugin {} said: {}", Quote(volume.plugin), volume.exhausted_words));
  }
  return absl::OkStatus();
}

// The volume first: a claim that comes or goes between the two readings changes the volume, and the commit sees it.
absl::StatusOr<ClaimState> Claims::Read(const VolumeKey& volume) {
  ClaimState state;
  MOORING_ASSIGN_OR_RETURN(state.volume, store_.GetVolume(volume));
  MOORING_ASSIGN_OR_RETURN(state.claims, store_.ListClaims(volume));
  state.exhausted = IsExhausted(state.volume, settings_.now(), settings_.exhausted_age);
  const auto plugin = plugins_.Find(state.volume.plugin);
  state.schedulable = plugin.ok() && plugin->schedulable();
  state.publishes = plugin.ok() && ControllerTraits(*plugin).publishes;
  if (!state.schedulable) state.unschedulable = plugin.ok() ? WhyUnschedulable(*plugin) : Message(plugin.status());
  return state;
}

absl::StatusOr<ClaimAnswer> Claims::Claim(const ClaimRequest& asked, Clock::time_point until) {
  ClaimRequest request = asked;
  if (request.node.empty()) request.node = settings_.host;
  const auto taken = Take(request, until);
  auto answer = taken.ok() ? absl::StatusOr<ClaimAnswer>(taken->answer) : taken.status();
  if (answer.ok() && answer->claim.publish == ClaimRecord::Publish::kSent) answer = Publish(*taken, until);
  if (answer.ok() && request.keep && !answer->claim.kept) answer = Keep(*std::move(answer));
  const bool refused_for_now = IsWorthAnotherTry(answer.status()) && !absl::IsResourceExhausted(answer.status());
  if (!answer.ok() && !refused_for_now && !absl::IsCancelled(answer.status())) {
    ClaimRecord refused;
    refused.volume = request.volume;
    refused.allocation = request.allocation;
    Tell(refused, true, fmt::format("{} claim refused: {}", ToString(request.mode), Message(answer.status())));
  }
  return answer;
}

absl::StatusOr<Claims::Taken> Claims::Take(const ClaimRequest& request, Clock::time_point until) {
  for (;;) {
    MOORING_ASSIGN_OR_RETURN(ClaimState state, Read(request.volume));
    MOORING_ASSIGN_OR_RETURN(const ClaimDecision decision, Decide(request, state));
    ClaimRecord claim;
    TakenBy by = TakenBy::kThisCall;
    if (decision == ClaimDecision::kHeldAlready) {
      claim = *std::find_if(state.claims.begin(), state.claims.end(),
                            [&](const ClaimRecord& held) { return AreOfOneClaim(held, request); });
      if (!claim.past && (claim.kept || !request.keep)) {
        return Taken{{std::move(state.volume), std::move(claim)}, TakenBy::kAnother};
      }
      if (!claim.past) by = TakenBy::kAnotherButKept;
      claim.past = false;  // its allocation is alive after all
      claim.past_since.reset();
      claim.problem.clear();
      claim.kept = claim.kept || request.keep;
    } else {
      MOORING_ASSIGN_OR_RETURN(claim, NewClaim(request, state, until));
    }
    if (!state.volume.in_use) state.volume.in_use = request.capability;
    // What was sent to a controller has to be known after a power cut, and what a user was told.
    const bool at_once = request.keep || claim.publish != ClaimRecord::Publish::kNone;
    const Durability durability = at_once ? Durability::kSynced : Durability::kOrdered;
    const auto revision = store_.Commit(Changes().Put(state.volume).Put(claim).With(durability));
    if (revision.ok()) {
      state.volume.revisions.modify = claim.revisions.modify = *revision;
      if (claim.revisions.create == 0) claim.revisions.create = *revision;
      Tell(claim, false,
           fmt::format("claimed to {} as {} {}", ToString(claim.mode), ToString(claim.capability.attachment),
                       ToString(claim.capability.access)));
      return Taken{{std::move(state.volume), std::move(claim)}, by};
    }
    if (!StartOver(revision.status(), until)) {
      return Annotate(revision.status(), fmt::format("claim volume {}", ToString(request.volume)));
    }
  }
}

absl::StatusOr<ClaimRecord> Claims::NewClaim(const ClaimRequest& request, const ClaimState& state,
                                             Clock::time_point until) {
  ClaimRecord claim;
  claim.volume = request.volume;
  claim.allocation = request.allocation;
  claim.node = request.node;
  claim.mode = request.mode;
  claim.capability = request.capability;
  claim.kept = request.keep;
  claim.taken_at = settings_.now();
  MOORING_ASSIGN_OR_RETURN(claim.external_node_id, ExternalNodeId(request, state, until));
  // Stored as sent before it is: whoever finds it so after a crash unpublishes, which is right in either case.
  claim.publish = state.publishes ? ClaimRecord::Publish::kSent : ClaimRecord::Publish::kNone;
  return claim;
}

// (i): the request's, else any claim's on that node, else the fingerprint, which is of this host.
absl::StatusOr<std::string> Claims::ExternalNodeId(const ClaimRequest& request, const ClaimState& state,
                                                   Clock::time_point until) {
  if (!request.external_node_id.empty()) return request.external_node_id;
  for (const ClaimRecord& claim : state.claims) {
    if (claim.node == request.node && !claim.external_node_id.empty()) return claim.external_node_id;
  }
  if (request.node != settings_.host) {
    return InvalidArgument(fmt::format("what plugin {} calls node {} is not known on {}: say it (external node id)",
                                       Quote(state.volume.plugin), Quote(request.node), Quote(settings_.host)));
  }
  MOORING_ASSIGN_OR_RETURN(const ReadyPlugin node, plugins_.WaitForNode(state.volume.plugin, until));
  return node.fingerprint.node_id;
}

// Whoever is granted it and told that it failed has nothing: a claim that stayed would be nobody's. What another call
// was granted is that one's, and the error says that it stays. Of a stop it stays, as sent: the same claim again goes
// on, and a release takes it back.
absl::StatusOr<ClaimAnswer> Claims::Publish(const Taken& taken, Clock::time_point until) {
  const auto hold = LockController(controller_locks_, taken.answer.claim.volume, until);
  auto answer = hold.ok() ? PublishLocked(taken.answer, until) : absl::StatusOr<ClaimAnswer>(hold.status());
  if (answer.ok() || absl::IsCancelled(answer.status())) return answer;
  switch (taken.by) {
    case TakenBy::kThisCall:
      return TakeBack(taken.answer.claim, answer.status(), hold.ok(), until);
    case TakenBy::kAnotherButKept:
      KeepNoLonger(taken.answer.claim);
      break;
    case TakenBy::kAnother:
      break;
  }
  return absl::Status(answer.status().code(), Message(answer.status()) + "; the claim was there before, and stays");
}

// One that another call of the same claim, which failed, has taken the mark from.
absl::StatusOr<ClaimAnswer> Claims::Keep(ClaimAnswer answer) {
  MOORING_ASSIGN_OR_RETURN(const auto claim, Change(answer.claim, [](ClaimRecord& record) {
                             return record.state == ClaimRecord::State::kTaken && !std::exchange(record.kept, true);
                           }));
  if (!claim || claim->state != ClaimRecord::State::kTaken) {
    return Aborted(fmt::format("the claim on volume {} was released while it was taken: try again",
                               ToString(answer.claim.volume)));
  }
  answer.claim = *claim;
  return answer;
}

// Published by now, somebody may have been told that it is kept.
void Claims::KeepNoLonger(const ClaimRecord& taken) {
  Change(taken, [&](ClaimRecord& record) {
    if (record.revisions.create != taken.revisions.create || record.publish != ClaimRecord::Publish::kSent) {
      return false;
    }
    record.kept = false;
    return true;
  }).IgnoreError();
}

absl::StatusOr<ClaimAnswer> Claims::PublishLocked(const ClaimAnswer& taken, Clock::time_point until) {
  const auto released = [&] {
    return Aborted(
        fmt::format("the claim on volume {} was released while it was taken: try again", ToString(taken.claim.volume)));
  };
  MOORING_ASSIGN_OR_RETURN(auto claim, Find(taken.claim.volume, taken.claim.mode, taken.claim.allocation));
  if (!claim || claim->state != ClaimRecord::State::kTaken) return released();
  if (claim->publish == ClaimRecord::Publish::kDone) return ClaimAnswer{taken.volume, *std::move(claim)};

  const auto context = CallPublish({taken.volume, *claim}, until);
  if (absl::IsResourceExhausted(context.status())) MarkExhausted(taken.claim.volume, Message(context.status()));
  MOORING_RETURN_IF_ERROR(context.status());
  // Lost, it is as it was sent: asked once more, or unpublished. What a user is told of is not lost.
  const auto mark = [&](ClaimRecord& record) {
    if (record.state != ClaimRecord::State::kTaken) return false;
    record.publish = ClaimRecord::Publish::kDone;
    record.publish_context = *context;
    return true;
  };
  MOORING_ASSIGN_OR_RETURN(claim, Change(*claim, mark, claim->kept ? Durability::kSynced : Durability::kOrdered));
  if (!claim || claim->state != ClaimRecord::State::kTaken) return released();
  return ClaimAnswer{taken.volume, *std::move(claim)};
}

// The claim, and whatever the controller did: a negating call, (d) 8. What of it cannot be done now is in the claim's
// problem, and owed; so is all of it where somebody else is at the controller (not `locked`).
absl::Status Claims::TakeBack(const ClaimRecord& taken, const absl::Status& why, bool locked, Clock::time_point until) {
  const auto claim = MarkTakenBack(taken, Message(why));
  if (!claim.ok()) {
    const std::lock_guard<std::mutex> lock(mutex_);
    owed_.push_back(taken);
    owed_.back().problem = Message(why);
  }
  const absl::Status undone = !claim.ok()        ? claim.status()
                              : locked && *claim ? FinishLocked(**claim, Durability::kSynced, until)
                                                 : absl::OkStatus();
  if (undone.ok() || absl::IsUnavailable(undone)) return why;
  return Annotate(why, fmt::format("(and taking it back failed: {})", Message(undone)));
}

// One that was published by now, or is another, is somebody's.
absl::StatusOr<std::optional<ClaimRecord>> Claims::MarkTakenBack(const ClaimRecord& taken, const std::string& why) {
  return Change(taken, [&](ClaimRecord& record) {
    if (record.revisions.create != taken.revisions.create || record.state != ClaimRecord::State::kTaken ||
        record.publish != ClaimRecord::Publish::kSent) {
      return false;
    }
    record.state = ClaimRecord::State::kNodeDetached;
    record.problem = why;
    return true;
  });
}

bool Claims::IsTakingBackOwed(const VolumeKey& volume, ClaimMode mode, const std::string& allocation) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::any_of(owed_.begin(), owed_.end(), [&](const ClaimRecord& owed) {
    return owed.volume == volume && owed.mode == mode && owed.allocation == allocation;
  });
}

// Each is owed until it is done, for whoever asks meanwhile.
void Claims::TakeBackOwed() {
  std::vector<ClaimRecord> owed;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    owed = owed_;
  }
  for (const ClaimRecord& claim : owed) {
    if (!MarkTakenBack(claim, claim.problem).ok()) continue;
    const std::lock_guard<std::mutex> lock(mutex_);
    std::erase_if(owed_, [&](const ClaimRecord& other) {
      return AreOfOneClaim(other, claim) && other.revisions.create == claim.revisions.create;
    });
  }
}

absl::StatusOr<StringMap> Claims::CallPublish(const ClaimAnswer& taken, Clock::time_point until) {
  const auto request = [&](const PluginTraits& traits) { return PublishRequest(taken, traits); };
  MOORING_ASSIGN_OR_RETURN(const auto response,
                           CallController(plugins_, taken.volume.plugin, request, settings_.retry, until));
  return StringMap(response.publish_context().begin(), response.publish_context().end());
}

// Said again and again, as by a node at which a volume is to be restored, it is told once.
void Claims::MarkExhausted(const VolumeKey& volume, const std::string& words) {
  bool is_new = false;
  const absl::Status status = ChangeVolume(volume, [&](Volume& record) {
    is_new = !IsExhausted(record, settings_.now(), settings_.exhausted_age) ||
             WithoutTries(record.exhausted_words) != WithoutTries(words);
    record.exhausted_at = settings_.now();
    record.exhausted_words = words;
    return true;
  });
  if (status.ok() && !is_new) return;
  ClaimRecord of_volume;
  of_volume.volume = volume;
  Tell(of_volume, true,
       status.ok() ? fmt::format("exhausted: {}", words)
                   : fmt::format("exhausted ({}), which could not be stored: {}", words, Message(status)));
}

// Where it cannot be stored it is done once more with the next mount, which changes nothing.
void Claims::NodeExpanded(const VolumeKey& volume, std::uint64_t bytes) {
  ChangeVolume(volume, [&](Volume& record) {
    if (!record.node_expansion_owed || record.capacity_bytes != bytes) return false;
    record.node_expansion_owed = false;
    return true;
  }).IgnoreError();
}

void Claims::PluginHealthChanged(const std::string& plugin) {
  const auto volumes = store_.ListVolumes();
  if (!volumes.ok()) return;  // the marks end with their hour, too
  for (const Volume& volume : *volumes) {
    if (volume.plugin != plugin || !volume.exhausted_at) continue;
    const absl::Status status = ChangeVolume(volume.key, [](Volume& record) {
      record.exhausted_at.reset();
      record.exhausted_words.clear();
      return true;
    });
    ClaimRecord of_volume;
    of_volume.volume = volume.key;
    Tell(of_volume, !status.ok(),
         status.ok() ? "no longer exhausted: its plugin's health changed"
                     : fmt::format("still marked as exhausted: {}", Message(status)));
  }
}

absl::Status Claims::AllocationGone(const std::string& allocation) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<ClaimRecord> claims, store_.ListClaims());
  for (const ClaimRecord& claim : claims) {
    if (claim.allocation != allocation || claim.past) continue;
    MOORING_ASSIGN_OR_RETURN(const auto changed, Change(claim, [&](ClaimRecord& record) {
                               if (record.past) return false;
                               record.past = true;
                               record.past_since = settings_.now();
                               return true;
                             }));
    if (changed) Tell(*changed, false, "its allocation is gone: a past claim, freed later");
  }
  return absl::OkStatus();
}

}  // namespace mooring::manager
