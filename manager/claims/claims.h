// The claims on volumes: taken, published at the controller, released step by step, collected. (f), (i), (k)
//
// One writer of the claims and of Volume::in_use and exhausted_at (and, as Volumes does, it clears
// node_expansion_owed). Every decision is claim_rules.h's, over what one read of the state gave, and committed with a
// compare of the volume's revision: of two at the same moment one starts over. Every commit that takes a place or frees
// one puts the volume, too; so the compare sees them all.
#ifndef MOORING_MANAGER_CLAIMS_CLAIMS_H_
#define MOORING_MANAGER_CLAIMS_CLAIMS_H_

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/keyed_lock.h"
#include "manager/claims/claim_broker.h"
#include "manager/plugins/plugin_directory.h"
#include "manager/records/events.h"
#include "manager/state/records_store.h"

namespace mooring::manager {

using ClaimRecord = Claim;  // within the class, Claim is what it does

class Claims final : public ClaimBroker {
 public:
  struct Settings {
    std::string host;
    std::chrono::seconds past_age{300};        // (f) 6
    std::chrono::seconds exhausted_age{3600};  // (k) 4
    RetryPolicy retry;
    std::function<Time()> now = [] { return std::chrono::system_clock::now(); };
  };

  // All outlive it. `controller_locks`: shared with Volumes, for calls to the controller are one at a time for a
  // volume.
  Claims(RecordsStore& store, PluginDirectory& plugins, KeyedLocks& controller_locks, Events& events,
         Settings settings);

  // An empty node is this host.
  absl::StatusOr<ClaimAnswer> Claim(const ClaimRequest& request, Clock::time_point until) override;
  bool IsTakingBackOwed(const VolumeKey& volume, ClaimMode mode, const std::string& allocation) override;
  absl::Status Release(const VolumeKey& volume, ClaimMode mode, const std::string& allocation,
                       const absl::Status& node_outcome, Clock::time_point until) override;
  absl::Status ReleaseKept(const VolumeKey& volume, ClaimMode mode, const std::string& allocation,
                           Clock::time_point until) override;
  void MarkExhausted(const VolumeKey& volume, const std::string& words) override;
  void NodeExpanded(const VolumeKey& volume, std::uint64_t bytes) override;

  // (f) 7, (k) 4: whether the volume could be claimed as far as its plugin goes. UNAVAILABLE, RESOURCE_EXHAUSTED: why
  // not.
  absl::Status CheckSchedulable(const Volume& volume);

  // The allocation is known to be gone: its claims become past ones, which the collector frees.
  absl::Status AllocationGone(const std::string& allocation);

  // Goes on with what was begun and not finished behind the node's step: releases of a manager before, and
  // controller-unpublishes that are owed. For the start, for when a plugin is back (`plugin`; empty: all), and now and
  // then. Errors are in the claims' `problem`. A plugin that hangs holds up only its own.
  void Resume(const std::string& plugin, Clock::time_point until);

  // Past claims that are old enough. `is_mounted` tells whether the node still has it: then it is not freed.
  using IsMounted = std::function<bool(const ClaimRecord& claim)>;
  void Collect(const IsMounted& is_mounted, Clock::time_point until);

  // (f) 6: frees without asking the node. FAILED_PRECONDITION while an allocation of that volume is alive, or one still
  // has it mounted. UNAVAILABLE: freed but for the controller's part, which is owed.
  absl::Status Force(const VolumeKey& volume, const IsMounted& is_mounted, Clock::time_point until);

  // (k) 4: the marks of this plugin's volumes go.
  void PluginHealthChanged(const std::string& plugin);

 private:
  // Whose claim it is that a call has got: where it cannot be published only its own is taken back.
  enum class TakenBy { kThisCall, kAnother, kAnotherButKept };  // kAnotherButKept: kept because of this call
  struct Taken {
    ClaimAnswer answer;
    TakenBy by;
  };

  // claims.cc
  absl::StatusOr<ClaimState> Read(const VolumeKey& volume);
  absl::StatusOr<Taken> Take(const ClaimRequest& request, Clock::time_point until);
  absl::StatusOr<ClaimRecord> NewClaim(const ClaimRequest& request, const ClaimState& state, Clock::time_point until);
  absl::StatusOr<std::string> ExternalNodeId(const ClaimRequest& request, const ClaimState& state,
                                             Clock::time_point until);
  absl::StatusOr<ClaimAnswer> Publish(const Taken& taken, Clock::time_point until);
  void KeepNoLonger(const ClaimRecord& taken);
  absl::StatusOr<ClaimAnswer> PublishLocked(const ClaimAnswer& taken, Clock::time_point until);
  absl::StatusOr<ClaimAnswer> Keep(ClaimAnswer answer);
  absl::Status TakeBack(const ClaimRecord& taken, const absl::Status& why, bool locked, Clock::time_point until);
  absl::StatusOr<std::optional<ClaimRecord>> MarkTakenBack(const ClaimRecord& taken, const std::string& why);
  void TakeBackOwed();
  absl::StatusOr<StringMap> CallPublish(const ClaimAnswer& taken, Clock::time_point until);

  // claims_release.cc
  absl::Status FinishOrOwe(const ClaimRecord& claim, Durability durability, Clock::time_point until);
  absl::Status Finish(const ClaimRecord& claim, Durability durability, Clock::time_point until);
  absl::Status FinishLocked(const ClaimRecord& claim, Durability durability, Clock::time_point until);
  absl::Status Unpublish(const ClaimRecord& claim, Clock::time_point until);
  absl::Status KeepProblem(const ClaimRecord& claim, const std::string& problem);
  absl::Status CallUnpublish(const Volume& volume, const ClaimRecord& claim, Clock::time_point until);
  absl::Status Free(const ClaimRecord& claim, Durability durability);
  void FinishAll(std::vector<ClaimRecord> claims, const std::string& only_plugin, Clock::time_point until);
  void FinishEach(const std::string& plugin, std::vector<ClaimRecord> claims, Clock::time_point until);
  void StartBehindTheLastThatFailed(const std::string& plugin, std::vector<ClaimRecord>& claims);
  bool HasController(const std::string& plugin);

  // claims_store.cc: changes that start over where somebody else's came between. `change` gives false: leave it.
  absl::StatusOr<std::optional<ClaimRecord>> Find(const VolumeKey& volume, ClaimMode mode,
                                                  const std::string& allocation);
  absl::StatusOr<std::optional<ClaimRecord>> Change(const ClaimRecord& claim,
                                                    const std::function<bool(ClaimRecord&)>& change,
                                                    Durability durability = Durability::kSynced);
  absl::Status ChangeVolume(const VolumeKey& key, const std::function<bool(Volume&)>& change);
  void Tell(const ClaimRecord& claim, bool bad, const std::string& text);

  RecordsStore& store_;
  PluginDirectory& plugins_;
  KeyedLocks& controller_locks_;
  Events& events_;
  const Settings settings_;

  std::mutex mutex_;
  std::vector<ClaimRecord> owed_;  // to be taken back, each with its problem: the store did not take that
  std::map<std::string, ClaimRecord> last_failed_;  // by plugin: where FinishEach could not finish, the last time
};

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_CLAIMS_CLAIMS_H_
