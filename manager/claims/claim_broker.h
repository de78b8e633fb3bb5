// Claims as Attachments sees them. Claims (claims.h) does it; a fake that counts its calls stands in for it in tests.
#ifndef MOORING_MANAGER_CLAIMS_CLAIM_BROKER_H_
#define MOORING_MANAGER_CLAIMS_CLAIM_BROKER_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "manager/claims/claim_rules.h"
#include "manager/csi/csi_channel.h"
#include "manager/records/records.h"

namespace mooring::manager {

// (k) 1: volume and publish context, so that nobody has to look twice.
struct ClaimAnswer {
  Volume volume;  // with its secrets
  Claim claim;
};

class ClaimBroker {
 public:
  virtual ~ClaimBroker() = default;

  // Commits the claim, then publishes at the controller where the plugin attaches, (i). Again for what is held already:
  // the same answer. Where the controller's part fails the claim is taken back. UNAVAILABLE, ABORTED: worth trying
  // again.
  virtual absl::StatusOr<ClaimAnswer> Claim(const ClaimRequest& request, Clock::time_point until) = 0;

  // Whether a claim that failed is there still, and only this process knows that it is nobody's: the store took
  // neither. Whoever wrote down that it was to be leaves that, and releases it.
  virtual bool IsTakingBackOwed(const VolumeKey& volume, ClaimMode mode, const std::string& allocation) = 0;

  // What was found at the node goes in: OK, nothing of it is mounted there any more; else why it is still, and the
  // claim stays, unpublishing, with that as its problem. Then the controller's part (skipped while another claim of
  // that node is alive), then it is freed: each step stored before the next, (f) 5. Where the controller cannot be
  // asked now, OK too: it is owed, and sent when the plugin is back. No such claim is OK, and one that a user keeps is
  // left as it is. That it is freed is durable with what the caller stores behind it, synced.
  virtual absl::Status Release(const VolumeKey& volume, ClaimMode mode, const std::string& allocation,
                               const absl::Status& node_outcome, Clock::time_point until) = 0;

  // The same as its user wants it, kept or not, of what is not at the node: durable when it returns.
  virtual absl::Status ReleaseKept(const VolumeKey& volume, ClaimMode mode, const std::string& allocation,
                                   Clock::time_point until) = 0;

  // The plugin said RESOURCE_EXHAUSTED of it: not schedulable for a while, (k) 4.
  virtual void MarkExhausted(const VolumeKey& volume, const std::string& words) = 0;

  // What Volume::node_expansion_owed says is done, as far as that size goes.
  virtual void NodeExpanded(const VolumeKey& volume, std::uint64_t bytes) = 0;
};

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_CLAIMS_CLAIM_BROKER_H_
