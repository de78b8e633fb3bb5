#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <thread>
#include <utility>

#include "base/status.h"
#include "base/text/quote.h"
#include "manager/claims/claims.h"
#include "manager/csi/csi_volume.h"
#include "manager/plugins/controller_call.h"
#include "manager/records/names.h"

namespace mooring::manager {
namespace {

ClaimRecord KeyOf(const VolumeKey& volume, ClaimMode mode, const std::string& allocation) {
  ClaimRecord claim;
  claim.volume = volume;
  claim.mode = mode;
  claim.allocation = allocation;
  return claim;
}

bool IsBeforeNodeStep(const ClaimRecord& claim) {
  return claim.state == ClaimRecord::State::kTaken || claim.state == ClaimRecord::State::kUnpublishing;
}

// What of the node is done goes on with the controller.
bool MarkNodeDetached(ClaimRecord& claim) {
  if (!IsBeforeNodeStep(claim)) return false;
  claim.state = ClaimRecord::State::kNodeDetached;
  claim.problem.clear();
  return true;
}

// (i): another claim of that node that has it, or is about to have it, published there.
bool IsUsedByAnother(const std::vector<ClaimRecord>& claims, const ClaimRecord& claim) {
  return std::any_of(claims.begin(), claims.end(), [&](const ClaimRecord& other) {
    return !AreOfOneClaim(other, claim) && other.external_node_id == claim.external_node_id &&
           IsBeforeNodeStep(other) && other.publish != ClaimRecord::Publish::kNone;
  });
}

}  // namespace

absl::Status Claims::Release(const VolumeKey& volume, ClaimMode mode, const std::string& allocation,
                             const absl::Status& node_outcome, Clock::time_point until) {
  const ClaimRecord claim = KeyOf(volume, mode, allocation);
  bool is_new = false;
  MOORING_ASSIGN_OR_RETURN(const auto changed, Change(claim, [&](ClaimRecord& record) {
                             is_new = false;
                             if (record.kept || !IsBeforeNodeStep(record)) return false;
                             if (node_outcome.ok()) return MarkNodeDetached(record);
                             is_new = std::exchange(record.state, ClaimRecord::State::kUnpublishing) !=
                                          ClaimRecord::State::kUnpublishing ||
                                      WithoutTries(record.problem) != WithoutTries(Message(node_outcome));
                             if (is_new) record.problem = Message(node_outcome);
                             return is_new;
                           }));
  if (!changed || (changed->kept && IsBeforeNodeStep(*changed))) return absl::OkStatus();
  if (node_outcome.ok()) return FinishOrOwe(*changed, Durability::kOrdered, until);
  if (is_new) Tell(*changed, true, fmt::format("not released, for its node still has it: {}", Message(node_outcome)));
  return absl::OkStatus();
}

absl::Status Claims::ReleaseKept(const VolumeKey& volume, ClaimMode mode, const std::string& allocation,
                                 Clock::time_point until) {
  MOORING_ASSIGN_OR_RETURN(const auto changed, Change(KeyOf(volume, mode, allocation), MarkNodeDetached));
  return changed ? FinishOrOwe(*changed, Durability::kSynced, until) : absl::OkStatus();
}

absl::Status Claims::FinishOrOwe(const ClaimRecord& claim, Durability durability, Clock::time_point until) {
  const absl::Status status = Finish(claim, durability, until);
  return absl::IsUnavailable(status) ? absl::OkStatus() : status;
}

absl::Status Claims::Finish(const ClaimRecord& claim, Durability durability, Clock::time_point until) {
  MOORING_ASSIGN_OR_RETURN(const KeyedLocks::Hold hold, LockController(controller_locks_, claim.volume, until));
  return FinishLocked(claim, durability, until);
}

// UNAVAILABLE: the controller's part is owed.
absl::Status Claims::FinishLocked(const ClaimRecord& claim, Durability durability, Clock::time_point until) {
  MOORING_ASSIGN_OR_RETURN(const auto current, Find(claim.volume, claim.mode, claim.allocation));
  if (!current || IsBeforeNodeStep(*current)) return absl::OkStatus();  // done, or taken again since
  if (current->state == ClaimRecord::State::kNodeDetached && current->publish != ClaimRecord::Publish::kNone) {
    MOORING_RETURN_IF_ERROR(Unpublish(*current, until));
  }
  return Free(*current, durability);
}

absl::Status Claims::Unpublish(const ClaimRecord& claim, Clock::time_point until) {
  MOORING_ASSIGN_OR_RETURN(const auto claims, store_.ListClaims(claim.volume));
  const auto volume = store_.GetVolume(claim.volume);
  if (!volume.ok() && !absl::IsNotFound(volume.status())) return volume.status();
  // Nobody knows any more what the plugin calls a volume that is gone.
  if (volume.ok() && !IsUsedByAnother(claims, claim)) {
    const absl::Status status = CallUnpublish(*volume, claim, until);
    if (absl::IsCancelled(status)) return status;
    if (!status.ok()) {
      MOORING_RETURN_IF_ERROR(KeepProblem(claim, Message(status)));
      return IsWorthAnotherTry(status) ? WithCode(absl::StatusCode::kUnavailable, status) : status;
    }
  }
  // Lost, it is asked once more, and says that it is done.
  const auto mark = [](ClaimRecord& record) {
    record.state = ClaimRecord::State::kControllerDetached;
    record.problem.clear();
    return true;
  };
  return Change(claim, mark, Durability::kOrdered).status();
}

// Stored and told once, however often it is tried.
absl::Status Claims::KeepProblem(const ClaimRecord& claim, const std::string& problem) {
  bool is_new = false;
  MOORING_RETURN_IF_ERROR(Change(claim, [&](ClaimRecord& record) {
                            is_new = WithoutTries(record.problem) != WithoutTries(problem);
                            if (is_new) record.problem = problem;
                            return is_new;
                          }).status());
  if (is_new) Tell(claim, true, fmt::format("not freed yet: {}", problem));
  return absl::OkStatus();
}

absl::Status Claims::CallUnpublish(const Volume& volume, const ClaimRecord& claim, Clock::time_point until) {
  if (!HasController(volume.plugin)) {
    return Unavailable(
        fmt::format("ControllerUnpublishVolume is owed to plugin {}, which has no healthy controller "
                    "now: it is sent when there is one",
                    Quote(volume.plugin)));
  }
  csi::v1::ControllerUnpublishVolumeRequest request;
  request.set_volume_id(IdForPlugin(volume));
  request.set_node_id(claim.external_node_id);
  volume.secrets.CopyTo(*request.mutable_secrets());
  const absl::Status status = CallController(plugins_, volume.plugin, request, settings_.retry, until).status();
  return absl::IsNotFound(status) ? absl::OkStatus() : status;  // neither volume nor node is there to be detached
}

// The place is free with this commit: record gone, and the volume's modes cleared with the last of its claims.
absl::Status Claims::Free(const ClaimRecord& claim, Durability durability) {
  for (;;) {
    auto volume = store_.GetVolume(claim.volume);
    if (!volume.ok() && !absl::IsNotFound(volume.status())) return volume.status();
    MOORING_ASSIGN_OR_RETURN(const auto claims, store_.ListClaims(claim.volume));
    const auto current = std::find_if(claims.begin(), claims.end(),
                                      [&](const ClaimRecord& other) { return AreOfOneClaim(other, claim); });
    if (current == claims.end()) return absl::OkStatus();
    Changes changes;
    changes.Delete(*current).With(durability);
    if (volume.ok()) {
      if (claims.size() == 1) volume->in_use.reset();
      changes.Put(*volume);
    }
    const absl::Status status = store_.Commit(changes).status();
    if (absl::IsAborted(status)) continue;
    if (status.ok()) Tell(claim, false, fmt::format("{} claim freed", ToString(claim.mode)));
    return status;
  }
}

bool Claims::HasController(const std::string& plugin) {
  const auto status = plugins_.Find(plugin);
  return status.ok() && status->controllers.healthy > 0;
}

// One after the other for each plugin, plugins side by side.
void Claims::FinishAll(std::vector<ClaimRecord> claims, const std::string& only_plugin, Clock::time_point until) {
  if (claims.empty()) return;
  const auto volumes = store_.ListVolumes();
  if (!volumes.ok()) return;  // the next round has them
  std::map<VolumeKey, std::string> plugin_of;
  for (const Volume& volume : *volumes) plugin_of[volume.key] = volume.plugin;
  std::map<std::string, std::vector<ClaimRecord>> by_plugin;
  for (ClaimRecord& claim : claims) {
    const std::string& plugin = plugin_of[claim.volume];
    if (only_plugin.empty() || plugin == only_plugin) by_plugin[plugin].push_back(std::move(claim));
  }
  std::vector<std::thread> threads;
  for (auto& [plugin, its] : by_plugin) {
    threads.emplace_back([this, until, &plugin = plugin, &its = its] { FinishEach(plugin, std::move(its), until); });
  }
  for (std::thread& thread : threads) thread.join();
}

// One that is stuck takes a part of the time only, and the next round begins behind it. Without a controller there is
// no use in asking for the rest.
void Claims::FinishEach(const std::string& plugin, std::vector<ClaimRecord> claims, Clock::time_point until) {
  constexpr std::size_t kMostStuck = 4;  // in one round
  StartBehindTheLastThatFailed(plugin, claims);
  for (std::size_t i = 0; i < claims.size() && Clock::now() < until; ++i) {
    const auto slice = (until - Clock::now()) / static_cast<int>(std::min(claims.size() - i, kMostStuck));
    const absl::Status status = Finish(claims[i], Durability::kOrdered, Clock::now() + slice);
    if (status.ok()) continue;
    if (absl::IsCancelled(status) || !HasController(plugin)) return;
    const std::lock_guard<std::mutex> lock(mutex_);
    last_failed_[plugin] = claims[i];
  }
}

void Claims::StartBehindTheLastThatFailed(const std::string& plugin, std::vector<ClaimRecord>& claims) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto last = last_failed_.find(plugin);
  if (last == last_failed_.end()) return;
  const auto it = std::find_if(claims.begin(), claims.end(),
                               [&](const ClaimRecord& claim) { return AreOfOneClaim(claim, last->second); });
  if (it != claims.end()) std::rotate(claims.begin(), it + 1, claims.end());
}

void Claims::Resume(const std::string& plugin, Clock::time_point until) {
  TakeBackOwed();
  auto claims = store_.ListClaims();
  if (!claims.ok()) return;  // the next round has them
  claims->erase(std::remove_if(claims->begin(), claims->end(), IsBeforeNodeStep), claims->end());
  FinishAll(*std::move(claims), plugin, until);
}

void Claims::Collect(const IsMounted& is_mounted, Clock::time_point until) {
  const auto claims = store_.ListClaims();
  if (!claims.ok()) return;
  const Time now = settings_.now();
  std::vector<ClaimRecord> gone;
  for (const ClaimRecord& claim : *claims) {
    if (!claim.past || !claim.past_since || now - *claim.past_since < settings_.past_age) continue;
    const bool mounted = is_mounted(claim);
    const auto changed = Change(claim, [&](ClaimRecord& record) {
      if (!record.past) return false;  // claimed again since
      if (!mounted) return MarkNodeDetached(record);
      const std::string problem = fmt::format(
          "its allocation is gone, and node {} still has it mounted: it is freed "
          "when it is detached",
          Quote(record.node));
      return std::exchange(record.problem, problem) != problem;
    });
    if (!mounted && changed.ok() && *changed) gone.push_back(**changed);
  }
  FinishAll(std::move(gone), "", until);
}

absl::Status Claims::Force(const VolumeKey& volume, const IsMounted& is_mounted, Clock::time_point until) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<ClaimRecord> claims, store_.ListClaims(volume));
  for (const ClaimRecord& claim : claims) {
    const bool alive = !claim.past && claim.state == ClaimRecord::State::kTaken;
    if (!alive && !is_mounted(claim)) continue;
    return FailedPrecondition(fmt::format("volume {} cannot be freed by force: allocation {} on {} {}",
                                          ToString(volume), Quote(claim.allocation), Quote(claim.node),
                                          alive ? "is alive" : "is gone, but the volume is mounted there still"));
  }
  absl::Status first;
  for (const ClaimRecord& claim : claims) {
    MOORING_ASSIGN_OR_RETURN(const auto changed, Change(claim, [](ClaimRecord& record) {
                               const bool alive = !record.past && record.state == ClaimRecord::State::kTaken;
                               return !alive && MarkNodeDetached(record);
                             }));
    const absl::Status status = changed ? Finish(*changed, Durability::kSynced, until) : absl::OkStatus();
    if (first.ok()) first = status;
  }
  return first;
}

}  // namespace mooring::manager
