// The claims on volumes: taken, published at the controller, released step by step, collected.
//
// Only this class and its ClaimReleaser write claims, Volume::in_use and exhausted_at; like Volumes it also clears
// node_expansion_owed. claim_rules.h decides over one read of the state. The decision is committed with a compare of
// the volume's revision, and every commit that takes or frees a claim also puts the volume. So of two concurrent claims
// one starts over.
#pragma once

#include <functional>
#include <string>

#include "base/keyed_lock.h"
#include "manager/claims/claim_broker.h"
#include "manager/claims/claim_records.h"
#include "manager/claims/claim_releaser.h"
#include "manager/claims/controller_publisher.h"
#include "manager/hosts/host_directory.h"
#include "manager/plugins/plugin_directory.h"
#include "manager/records/events.h"
#include "manager/state/records_store.h"

namespace mooring::manager {

class Claims final : public ClaimBroker {
 public:
  using IsMounted = ClaimReleaser::IsMounted;

  using Settings = ClaimSettings;

  // All outlive it. `controller_locks`: shared with Volumes, because a volume has one controller call at a time.
  Claims(RecordsStore& store, PluginDirectory& plugins, HostDirectory& hosts, KeyedLocks& controller_locks,
         Events& events, WorkQueue& queue, Settings settings);

  // An empty node means this host.
  absl::StatusOr<ClaimAnswer> Take(const ClaimRequest& request, Clock::time_point until) override;
  bool IsRollbackOwed(const VolumeKey& volume, ClaimMode mode, const std::string& allocation) override {
    return releaser_.IsRollbackOwed(volume, mode, allocation);
  }
  absl::Status CheckHeld(const ClaimAnswer& answer) override;
  absl::StatusOr<bool> IsHeld(const VolumeKey& volume, ClaimMode mode, const std::string& allocation) override;
  absl::Status Release(const VolumeKey& volume, ClaimMode mode, const std::string& allocation,
                       const absl::Status& node_outcome, Clock::time_point until) override {
    return releaser_.Release(volume, mode, allocation, node_outcome, until);
  }
  absl::Status ReleaseKept(const VolumeKey& volume, ClaimMode mode, const std::string& allocation,
                           Clock::time_point until) override {
    return releaser_.ReleaseKept(volume, mode, allocation, until);
  }
  void MarkExhausted(const VolumeKey& volume, const std::string& words) override {
    exhausted_.Set(volume, hosts_.self(), words);
  }
  void NodeExpanded(const VolumeKey& volume, std::uint64_t bytes) override;

  // Whether the plugin could serve a claim of this volume now. UNAVAILABLE, RESOURCE_EXHAUSTED: why it cannot.
  absl::Status CheckSchedulable(const Volume& volume);

  // The allocation no longer exists: its claims become past ones. They are freed at the age `past_age`, except those
  // whose node still mounts the volume.
  absl::Status AllocationGone(const std::string& allocation) { return releaser_.AllocationGone(allocation); }

  // Frees claims of a host without a lease, so that other hosts can have the volumes:
  //
  //   unreachable   only claims that were published at a controller which can be asked now. ControllerUnpublishVolume
  //                 makes the storage refuse that node, so its tasks cannot write any more. Then the claim is freed.
  //   lost          all claims: a person says that nothing runs there any more. They exclude nobody from now on, and
  //                 stay only until their controllers have been asked.
  //
  // The commit that gives up claims also compares that the host has no lease. So the host either keeps its claims, or
  // finds Host::gave_up_claims when it is back. Called by one host at a time (recovery.h). Claims that are left wait
  // for a controller or a person. ABORTED: it is back.
  absl::Status Recover(const std::string& host, Clock::time_point until);

  // Continues in the background what claims of this host need: releases that did not finish, and past claims. Errors
  // are in Claim::problem. Called at the start, and now and then, because other hosts report that allocations are
  // gone. Gives the claims of this host.
  absl::StatusOr<std::vector<Claim>> Resume();
  bool WaitUntilTried(Clock::time_point until) { return releaser_.WaitUntilTried(until); }  // what was resumed

  // Frees the claims of a volume without asking the node, and also if the controller refuses or no host has one any
  // more. FAILED_PRECONDITION: an allocation is alive, or its volume is still mounted. Any other error does not tell
  // whether the node still has the volume: the claim stays, and its release is repeated.
  absl::Status Force(const VolumeKey& volume, const IsMounted& is_mounted, Clock::time_point until) {
    return releaser_.Force(volume, is_mounted, until);
  }

  void PluginHealthChanged(const std::string& plugin) { exhausted_.Clear(plugin); }

 private:
  // A failed publish undoes only what the same call changed.
  enum class GrantedBy { kThisCall, kEarlierCall, kEarlierCallKeptByThis };
  struct Grant {
    ClaimAnswer answer;
    GrantedBy by;
  };

  absl::StatusOr<ClaimState> Read(const ClaimRequest& request, Freshness freshness);
  absl::StatusOr<Grant> GrantClaim(const ClaimRequest& request, Clock::time_point until);
  void RequireHost(const ClaimState& state, const std::string& node, Changes& changes) const;
  absl::StatusOr<Grant> Prepare(const ClaimRequest& request, Freshness freshness, Changes& changes,
                                Clock::time_point until);
  absl::StatusOr<Grant> PrepareGrant(const ClaimRequest& request, ClaimState state, Clock::time_point until);
  absl::StatusOr<Claim> NewClaim(const ClaimRequest& request, const ClaimState& state, Clock::time_point until);
  absl::StatusOr<std::string> ExternalNodeId(const ClaimRequest& request, const ClaimState& state,
                                             Clock::time_point until);
  absl::StatusOr<ClaimAnswer> Publish(const Grant& grant, Clock::time_point until);
  absl::StatusOr<ClaimAnswer> PublishLocked(const ClaimAnswer& granted, Clock::time_point until);
  absl::StatusOr<ClaimAnswer> MarkKept(ClaimAnswer answer);
  void UnmarkKept(const Claim& claim);
  absl::Status GiveUp(const VolumeKey& volume, const std::string& host);
  bool MarkGivenUp(Claim& claim, const Volume& volume, const Host& host);

  RecordsStore& store_;
  PluginDirectory& plugins_;
  HostDirectory& hosts_;
  const Settings settings_;
  ClaimRecords records_;
  ControllerPublisher controller_;
  ExhaustedMarks exhausted_;
  ClaimReleaser releaser_;
};

}  // namespace mooring::manager
