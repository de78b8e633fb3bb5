// The part of Claims (claims.h) that Attachments uses. Tests put a fake in its place that counts the calls.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "manager/claims/claim_rules.h"
#include "manager/csi/csi_channel.h"
#include "manager/records/records.h"

namespace mooring::manager {

// Volume and publish context together, so that the caller needs no second look-up.
struct ClaimAnswer {
  Volume volume;  // with its secrets
  Claim claim;
  std::int64_t lease = 0;  // Lease::Number of this host when the claim stood
};

class ClaimBroker {
 public:
  virtual ~ClaimBroker() = default;

  // Commits the claim, then publishes the volume at its controller if the plugin attaches volumes. A claim that the
  // allocation already holds gives the same answer again. If the publish fails, the claim is undone. UNAVAILABLE and
  // ABORTED: the same call may succeed later.
  virtual absl::StatusOr<ClaimAnswer> Take(const ClaimRequest& request, Clock::time_point until) = 0;

  // Whether the record of a failed claim still stands, because the store refused to undo it. The caller then keeps its
  // own record and releases the claim later.
  virtual bool IsRollbackOwed(const VolumeKey& volume, ClaimMode mode, const std::string& allocation) = 0;

  // Whether the allocation still has its claim on this host. Asked after a mount, because this process may have stood
  // still for longer than its lease. The state is read only if the lease has changed.
  // FAILED_PRECONDITION: others have freed the claim.
  virtual absl::Status CheckHeld(const ClaimAnswer& answer) = 0;

  // Whether this host has the claim on record, and its node step is not done.
  virtual absl::StatusOr<bool> IsHeld(const VolumeKey& volume, ClaimMode mode, const std::string& allocation) = 0;

  // Releases a claim after its unmount. `node_outcome` OK: nothing is mounted at the node any more. The controller is
  // asked to unpublish, unless another claim of that node still uses the volume; then the claim is freed. Each step is
  // stored before the next. An error: the claim stays, in state unmount-failed, with that error as its problem.
  // Returns OK for an unknown claim, for a claim that a user keeps, which stays, and for a claim of another host. Also
  // OK: the controller cannot be asked now; the call is owed and sent later. The release is durable with the next
  // synced commit of the caller.
  virtual absl::Status Release(const VolumeKey& volume, ClaimMode mode, const std::string& allocation,
                               const absl::Status& node_outcome, Clock::time_point until) = 0;

  // Releases a claim that is not mounted, kept by a user or not. Durable when it returns. FAILED_PRECONDITION: another
  // host has it.
  virtual absl::Status ReleaseKept(const VolumeKey& volume, ClaimMode mode, const std::string& allocation,
                                   Clock::time_point until) = 0;

  // The plugin answered RESOURCE_EXHAUSTED: the volume cannot be claimed on this host for a while
  // (ExhaustedMarks).
  virtual void MarkExhausted(const VolumeKey& volume, const std::string& words) = 0;

  // The node has expanded the volume to `bytes`. Clears Volume::node_expansion_owed if that is its capacity.
  virtual void NodeExpanded(const VolumeKey& volume, std::uint64_t bytes) = 0;
};

}  // namespace mooring::manager
