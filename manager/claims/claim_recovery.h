// Frees the claims of a host that is away, so that other hosts can have the volumes.
//
//   unreachable   only claims that were published at a controller which can be asked now. ControllerUnpublishVolume
//                 makes the storage refuse that node, so its tasks cannot write any more. Then the claim is freed.
//   lost          all claims: a person says that nothing runs there any more. They exclude nobody from now on, and stay
//                 only until their controllers have been asked.
//
// The commit that gives up claims also compares that the host has no lease. So the host either keeps its claims, or
// finds Host::gave_up_claims when it is back.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "manager/claims/claim_records.h"
#include "manager/claims/claim_releaser.h"
#include "manager/claims/controller_publisher.h"

namespace mooring::manager {

class ClaimRecovery {
 public:
  // All outlive it.
  ClaimRecovery(ClaimRecords& records, ClaimReleaser& releaser, ControllerPublisher& controller)
      : records_(records), releaser_(releaser), controller_(controller) {}

  // See Claims.
  absl::Status Recover(const std::string& host, Clock::time_point until);

 private:
  absl::StatusOr<std::vector<ClaimRecord>> ClaimsOf(const std::string& host);
  absl::Status GiveUp(const VolumeKey& volume, const std::string& host);
  bool Mark(ClaimRecord& claim, const Volume& volume, const Host& host);

  ClaimRecords& records_;
  ClaimReleaser& releaser_;
  ControllerPublisher& controller_;
};

}  // namespace mooring::manager
