#include "manager/claims/claim_rules.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>

#include "base/status.h"
#include "base/text/quote.h"
#include "base/text/terminal_text.h"
#include "manager/hosts/host_directory.h"
#include "manager/plugins/plugin_directory.h"
#include "manager/records/names.h"
#include "manager/state/keys.h"

namespace mooring::manager {
namespace {

// Collects faults. They stay on one line, because a message for a terminal shows a line break as \n.
class Complaints {
 public:
  void Add(const std::string& text) { text_ += (text_.empty() ? "" : "; ") + text; }
  void AddIf(bool wrong, const std::string& text) {
    if (wrong) Add(text);
  }
  void Add(const absl::Status& status) { AddIf(!status.ok(), Message(status)); }

  absl::Status As(absl::StatusCode code) const {
    return text_.empty() ? absl::OkStatus() : WithCode(code, InvalidArgument(text_));
  }

 private:
  std::string text_;
};

std::string Describe(const Capability& capability) {
  return fmt::format("{} {}", ToString(capability.attachment), ToString(capability.access));
}

std::string Describe(const std::vector<Capability>& capabilities) {
  std::string words;
  for (const Capability& capability : capabilities) words += (words.empty() ? "" : ", ") + Describe(capability);
  return words;
}

bool Has(const std::vector<Capability>& capabilities, const Capability& wanted) {
  return std::find(capabilities.begin(), capabilities.end(), wanted) != capabilities.end();
}

// How far its release has come. Other hosts give up a claim of a host that is away, although nothing was unmounted.
std::string ReleaseState(const Claim& claim, const std::vector<HostStatus>& hosts) {
  const bool is_given_up = claim.lost || !Absence(hosts, claim.node).empty();
  const std::string_view state =
      claim.state != Claim::State::kNodeDetached ? ToString(claim.state)
      : is_given_up ? "given up for its host, which may use it still; its controller has not detached it yet"
                    : "unmounted on its host, but not released by its controller yet";
  return fmt::format("{}{}{}", state, claim.problem.empty() ? "" : ": ", claim.problem);
}

std::string Holder(const Claim& claim, const std::vector<HostStatus>& hosts) {
  std::string words = fmt::format("{} {} on {}", claim.mode == ClaimMode::kWrite ? "writer" : "reader",
                                  Quote(claim.allocation), Quote(claim.node));
  if (claim.taken_at != Time()) {
    words += fmt::format(" since {:%FT%TZ}", fmt::gmtime(std::chrono::system_clock::to_time_t(claim.taken_at)));
  }
  if (claim.state != Claim::State::kTaken) {
    words += fmt::format(" ({})", ReleaseState(claim, hosts));
  } else if (const std::string absence = Absence(hosts, claim.node); !absence.empty()) {
    words += fmt::format(" ({})", absence);
  } else if (claim.past) {
    words += " (its allocation is gone)";
  }
  return words;
}

// Says how a claim that another request waits for becomes free.
std::string WhatFrees(const Claim& claim, const std::vector<HostStatus>& hosts) {
  const std::string what = fmt::format("the claim of {}", Quote(claim.allocation));
  if (!Absence(hosts, claim.node).empty()) {
    const char* const by_controller = claim.publish == Claim::Publish::kNone
                                          ? ""
                                          : ", or once the controller of its plugin has detached it from that host";
    return fmt::format(
        "{} is freed when {} is back and has released it{}, or, if nothing runs there any more, by: mooring host lost "
        "{}",
        what, Quote(claim.node), by_controller, ShellQuote(claim.node));
  }
  const std::string there = hosts.size() > 1 ? fmt::format(" (on {})", Quote(claim.node)) : "";
  if (claim.state != Claim::State::kTaken) {
    return fmt::format(
        "{} is freed by itself as soon as its release succeeds, or by: mooring release {} --namespace {} --force{}",
        what, ShellQuote(claim.volume.id), ShellQuote(claim.volume.ns), there);
  }
  if (claim.past) return what + " is freed some minutes after the end of its allocation, once nothing is mounted";
  if (!claim.kept) return fmt::format("{} is freed when the volume is detached on {}", what, Quote(claim.node));
  return fmt::format("{} is freed by: mooring release {} --namespace {} --for {}{}", what, ShellQuote(claim.volume.id),
                     ShellQuote(claim.volume.ns), ShellQuote(claim.allocation), there);
}

bool IsWriter(const Claim& claim) { return claim.mode == ClaimMode::kWrite; }

// Whether `access` allows the claim beside `claims`: those of others, and of this allocation in the other mode.
bool AllowsClaim(AccessMode access, const ClaimRequest& request, const std::vector<Claim>& claims) {
  const bool writes = request.mode == ClaimMode::kWrite;
  switch (access) {
    case AccessMode::kSingleNodeReaderOnly:
      return !writes && std::all_of(claims.begin(), claims.end(), IsWriter);
    case AccessMode::kSingleNodeWriter:
    case AccessMode::kSingleNodeSingleWriter:
      return claims.empty();
    case AccessMode::kSingleNodeMultiWriter:
      return std::all_of(claims.begin(), claims.end(), [&](const Claim& claim) { return claim.node == request.node; });
    case AccessMode::kMultiNodeReaderOnly:
      return !writes;
    case AccessMode::kMultiNodeSingleWriter:
      return !writes || std::none_of(claims.begin(), claims.end(), IsWriter);
    case AccessMode::kMultiNodeMultiWriter:
      return true;
  }
  return false;
}

absl::Status CheckRequest(const ClaimRequest& request, const Volume& volume) {
  MOORING_RETURN_IF_ERROR(CheckName("allocation", request.allocation));
  MOORING_RETURN_IF_ERROR(CheckName("node", request.node));
  if (request.mode == ClaimMode::kWrite && IsReader(request.capability.access)) {
    return InvalidArgument(
        "access mode {} cannot be claimed for writing: claim it for reading, or with a writer's mode",
        ToString(request.capability.access));
  }
  if (!Has(volume.capabilities, request.capability)) {
    return InvalidArgument("volume {} cannot be used as {}: it has {}", ToString(volume.key),
                           Describe(request.capability), Describe(volume.capabilities));
  }
  return absl::OkStatus();
}

absl::Status CheckAttachment(const ClaimRequest& request, const Volume& volume) {
  if (!volume.in_use || volume.in_use->attachment == request.capability.attachment) return absl::OkStatus();
  return FailedPrecondition("volume {} is in use as {}, so it cannot be claimed as {}", ToString(volume.key),
                            ToString(volume.in_use->attachment), ToString(request.capability.attachment));
}

// Compares the request with the claim that its allocation holds.
absl::StatusOr<ClaimDecision> CompareWithHeld(const ClaimRequest& request, const Claim& held,
                                              const std::vector<HostStatus>& hosts) {
  const std::string what = fmt::format("volume {} for {}", ToString(held.volume), Quote(held.allocation));
  if (held.state != Claim::State::kTaken) {
    return Aborted("{} is still being released ({}): try again", what, ReleaseState(held, hosts));
  }
  if (held.node != request.node) {
    return FailedPrecondition("{} is claimed on node {}, not on {}", what, Quote(held.node), Quote(request.node));
  }
  if (held.capability != request.capability) {
    return FailedPrecondition("{} is claimed as {} already, so not as {}: release it first", what,
                              Describe(held.capability), Describe(request.capability));
  }
  return ClaimDecision::kHeldAlready;
}

absl::Status CheckReady(const Volume& volume) {
  switch (volume.state) {
    case Volume::State::kReady:
      return absl::OkStatus();
    case Volume::State::kCreating:
      return Unavailable("volume {} is still being created", ToString(volume.key));
    case Volume::State::kDeleting:
      return FailedPrecondition("volume {} is being deleted", ToString(volume.key));
  }
  return Internal("volume {} has an unknown state", ToString(volume.key));
}

absl::Status CheckSchedulable(const ClaimState& state) {
  const Volume& volume = state.volume;
  if (!state.schedulable) {
    return Unavailable("volume {} cannot be used now: {}", ToString(volume.key), state.unschedulable);
  }
  if (state.exhausted) {
    return ResourceExhausted("volume {} cannot be used for now: plugin {} said {}", ToString(volume.key),
                             Quote(volume.plugin), Quote(volume.exhausted_words));
  }
  return absl::OkStatus();
}

std::string Describe(const StringMap& segments) {
  std::string words;
  for (const auto& [key, value] : segments) words += fmt::format("{}{}={}", words.empty() ? "" : ",", key, value);
  return words;
}

absl::Status CheckNode(const ClaimRequest& request, const ClaimState& state) {
  if (!state.hosts.empty()) MOORING_RETURN_IF_ERROR(CheckTakesClaims(state.hosts, request.node));
  const std::vector<Topology>& reachable = state.volume.topologies;
  if (IsReachable(reachable, state.node_topology)) return absl::OkStatus();
  return FailedPrecondition("volume {} can be used where {} holds, but node {} has {}: use it there, or a copy of it",
                            ToString(state.volume.key), Describe(reachable.front().segments), Quote(request.node),
                            Describe(state.node_topology));
}

absl::Status CheckFree(const ClaimRequest& request, const ClaimState& state) {
  const auto refuse = [&](AccessMode access, std::string_view whose, const Claim* holder) {
    return FailedPrecondition("volume {} has no free {} claim: {} is {}, and it is claimed by {}{}",
                              ToString(state.volume.key), ToString(request.mode), whose, ToString(access),
                              holder == nullptr ? "no other allocation" : Holders(state.claims, state.hosts),
                              holder == nullptr ? "" : "; " + WhatFrees(*holder, state.hosts));
  };
  const Claim* const first = state.claims.empty() ? nullptr : &state.claims.front();
  if (state.volume.in_use && !AllowsClaim(state.volume.in_use->access, request, state.claims)) {
    return refuse(state.volume.in_use->access, "the mode in use", first);
  }
  if (!AllowsClaim(request.capability.access, request, state.claims)) {
    return refuse(request.capability.access, "the mode asked for", first);
  }
  for (const Claim& writer : state.claims) {
    const AccessMode access = writer.capability.access;
    if (IsWriter(writer) && !AllowsClaim(access, request, state.claims)) {
      return refuse(access, "the mode of a writer", &writer);
    }
  }
  return absl::OkStatus();
}

void CheckTopologies(const std::vector<Topology>& topologies, std::string_view which, Complaints& complaints) {
  for (const Topology& topology : topologies) {
    if (topology.segments.empty()) return complaints.Add(fmt::format("a {} topology has no segments", which));
  }
}

// Whether `next` is set and differs.
template <typename Value>
bool Differs(const Value& now, const Value& next) {
  return next != Value() && next != now;
}

void CheckFixed(const Volume& now, const Volume& next, Complaints& complaints) {
  const auto fixed = [&](bool differs, std::string_view what) {
    complaints.AddIf(differs, fmt::format("{} of volume {} cannot be changed", what, ToString(now.key)));
  };
  fixed(next.key != now.key, "the id or namespace");
  const auto fixed_word = [&](const std::string& before, const std::string& after, std::string_view what) {
    fixed(Differs(before, after), fmt::format("{} {}, not {},", what, Quote(before), Quote(after)));
  };
  fixed_word(now.plugin, next.plugin, "the plugin");
  fixed_word(now.external_id, next.external_id, "the external id");
  fixed_word(now.name, next.name, "the name");
  fixed(Differs(now.parameters, next.parameters), "the parameters");
  fixed(Differs(now.snapshot_id, next.snapshot_id), "the snapshot it was made from");
  fixed(Differs(now.clone_id, next.clone_id), "the volume it was cloned from");
  fixed(Differs(now.required_topologies, next.required_topologies) ||
            Differs(now.preferred_topologies, next.preferred_topologies),
        "the topology that was asked for");
  fixed(now.created_here && Differs(now.context, next.context), "the context, which its plugin gave,");
  complaints.AddIf(Differs(now.min_bytes, next.min_bytes) || Differs(now.max_bytes, next.max_bytes),
                   fmt::format("the size of volume {} is changed by expanding it", ToString(now.key)));
}

void CheckInUse(const Volume& now, const Volume& next, const std::vector<Claim>& claims, Complaints& complaints) {
  const std::string while_in_use = fmt::format("volume {} is in use by {}: ", ToString(now.key), Holders(claims));
  complaints.AddIf(next.mount_options != now.mount_options, while_in_use + "its mount options cannot be changed now");
  complaints.AddIf(Differs(now.context, next.context), while_in_use + "its context cannot be changed now");
  std::vector<Capability> used;
  if (now.in_use) used.push_back(*now.in_use);
  for (const Claim& claim : claims) used.push_back(claim.capability);
  for (const Capability& capability : used) {
    if (Has(next.capabilities, capability)) continue;
    return complaints.Add(while_in_use + fmt::format("it must stay usable as {}", Describe(capability)));
  }
}

}  // namespace

std::string Holders(const std::vector<Claim>& claims, const std::vector<HostStatus>& hosts) {
  constexpr std::size_t kNamed = 3;
  std::string words;
  for (std::size_t i = 0; i < std::min(claims.size(), kNamed); ++i) {
    words += (i == 0 ? "" : ", ") + Holder(claims[i], hosts);
  }
  if (claims.size() > kNamed) words += fmt::format(" and {} more", claims.size() - kNamed);
  return words;
}

absl::StatusOr<ClaimDecision> Decide(const ClaimRequest& request, const ClaimState& state) {
  MOORING_RETURN_IF_ERROR(CheckRequest(request, state.volume));
  MOORING_RETURN_IF_ERROR(CheckAttachment(request, state.volume));
  for (const Claim& claim : state.claims) {
    if (AreOfOneClaim(claim, request)) return CompareWithHeld(request, claim, state.hosts);
  }
  MOORING_RETURN_IF_ERROR(CheckReady(state.volume));
  MOORING_RETURN_IF_ERROR(CheckNode(request, state));
  MOORING_RETURN_IF_ERROR(CheckFree(request, state));
  MOORING_RETURN_IF_ERROR(CheckSchedulable(state));
  return ClaimDecision::kGrant;
}

absl::Status CheckSecrets(const Volume& volume) {
  if (volume.secrets_problem.empty()) return absl::OkStatus();
  return FailedPrecondition(
      "the secrets or mount flags of volume {} cannot be read: {}; or set them again with 'mooring volume update {}'",
      ToString(volume.key), volume.secrets_problem, ShellQuote(volume.key.id));
}

absl::Status CheckVolume(const Volume& volume) {
  Complaints complaints;
  complaints.Add(CheckName("volume id", volume.key.id));
  complaints.Add(CheckName("namespace", volume.key.ns));
  complaints.Add(CheckName("plugin", volume.plugin));
  complaints.AddIf(volume.capabilities.empty(), "a capability (access and attachment mode) is missing");
  complaints.AddIf(!volume.snapshot_id.empty() && !volume.clone_id.empty(),
                   "it can be made from a snapshot or from another volume, not from both");
  complaints.Add(CheckSizes(volume.min_bytes, volume.max_bytes));
  CheckTopologies(volume.required_topologies, "required", complaints);
  CheckTopologies(volume.preferred_topologies, "preferred", complaints);
  return complaints.As(absl::StatusCode::kInvalidArgument);
}

absl::Status CheckSizes(std::uint64_t min_bytes, std::uint64_t max_bytes) {
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (min_bytes > kMost || max_bytes > kMost) return InvalidArgument("a size of 2^63 bytes or more is too large");
  if (max_bytes == 0 || min_bytes <= max_bytes) return absl::OkStatus();
  return InvalidArgument("at least {} bytes and at most {} contradict each other", min_bytes, max_bytes);
}

absl::Status CheckTaskRequest(const TaskRequest& request) {
  const AccessMode access = request.capability.access;
  Complaints complaints;
  complaints.AddIf(IsReader(access) && !request.read_only,
                   fmt::format("access mode {} needs the volume to be asked for read-only", ToString(access)));
  complaints.AddIf(IsReader(access) && request.mode == ClaimMode::kWrite,
                   fmt::format("access mode {} cannot be claimed for writing", ToString(access)));
  complaints.AddIf(request.capability.attachment == AttachmentMode::kBlockDevice && request.has_mount_options,
                   "a block device takes no mount options");
  complaints.AddIf(request.per_alloc && request.system_job,
                   "a job that runs on every host cannot have a volume for each allocation (per_alloc)");
  // Many tasks of one node are what single-node-multi-writer is for.
  const bool one_task = (IsSingleNode(access) && access != AccessMode::kSingleNodeMultiWriter) ||
                        (access == AccessMode::kMultiNodeSingleWriter && request.mode == ClaimMode::kWrite);
  complaints.AddIf(
      request.tasks > 1 && one_task && !request.per_alloc,
      fmt::format("{} tasks cannot share a volume as {}: ask for a volume each (per_alloc), or for another access mode",
                  request.tasks, ToString(access)));
  return complaints.As(absl::StatusCode::kInvalidArgument);
}

absl::Status CheckUpdate(const Volume& now, const Volume& next, const std::vector<Claim>& claims) {
  Complaints complaints;
  CheckFixed(now, next, complaints);
  if (now.in_use || !claims.empty()) CheckInUse(now, next, claims, complaints);
  return complaints.As(absl::StatusCode::kFailedPrecondition);
}

bool IsExhausted(const Volume& volume, Time now) {
  return volume.exhausted_at && now - *volume.exhausted_at < std::chrono::hours(1);
}

}  // namespace mooring::manager
