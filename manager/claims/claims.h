// The claims on volumes: taken, published at the controller, released step by step, collected. (f), (i), (k)
//
// One writer of the claims and of Volume::in_use and exhausted_at. Every decision is claim_rules.h's, over what one
// read of the state gave, and committed with a compare of the volume's revision: of two at the same moment one starts
// over.
#ifndef MOORING_MANAGER_CLAIMS_CLAIMS_H_
#define MOORING_MANAGER_CLAIMS_CLAIMS_H_

#include <functional>
#include <string>
#include <vector>

#include "base/keyed_lock.h"
#include "manager/claims/claim_broker.h"
#include "manager/events.h"
#include "manager/plugins/plugin_directory.h"
#include "manager/state/records_store.h"

namespace mooring::manager {

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

  absl::StatusOr<ClaimAnswer> Claim(const ClaimRequest& request, Clock::time_point until) override;
  absl::Status Release(const VolumeKey& volume, ClaimMode mode, const std::string& allocation,
                       const absl::Status& node_outcome, Clock::time_point until) override;

  // The allocation is known to be gone: its claims become past ones, which the collector frees. `still_mounted`: on the
  // claim's node something of it is mounted; those are left to whoever unmounts it.
  absl::Status AllocationGone(const std::string& allocation);

  // Takes on what was begun and not finished: releases of a manager before, controller-unpublishes that are owed. For
  // the start, for when a plugin is back (`plugin`; empty: all), and now and then. Errors are in the claims' `problem`.
  void Resume(const std::string& plugin, Clock::time_point until);

  // Past claims that are old enough. `is_mounted` tells whether the node still has it: then it is not freed.
  using IsMounted = std::function<bool(const mooring::manager::Claim& claim)>;
  void Collect(const IsMounted& is_mounted, Clock::time_point until);

  // (f) 6: frees without asking the node. FAILED_PRECONDITION while an allocation of that volume is alive.
  absl::Status Force(const VolumeKey& volume, const IsMounted& is_mounted, Clock::time_point until);

  // (k) 4: the marks of this plugin's volumes go.
  void PluginHealthChanged(const std::string& plugin);

 private:
  RecordsStore& store_;
  PluginDirectory& plugins_;
  KeyedLocks& controller_locks_;
  Events& events_;
  const Settings settings_;
};

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_CLAIMS_CLAIMS_H_
