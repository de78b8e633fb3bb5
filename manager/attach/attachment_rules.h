// How a request becomes the record of an attachment. Pure.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "manager/claims/claim_broker.h"
#include "manager/records/records.h"

namespace mooring::manager {

struct AttachRequest {
  VolumeKey volume;
  std::string plugin;  // of the volume: an interrupted attach waits only for this plugin
  std::string allocation;
  std::string request;  // empty: the volume's id
  ClaimMode mode = ClaimMode::kWrite;
  Capability capability;
  MountOptions options;
  bool read_only = false;  // also implied by the claim mode, the access mode and the mount flag "ro"
  Propagation propagation = Propagation::kPrivate;
  std::string attach_path;                          // empty: the caller uses AttachmentRecord::source
  bool until_reboot = false;                        // AttachmentRecord::until_reboot
  std::shared_ptr<const VolumeUse> seen = nullptr;  // ClaimRequest::seen
  // Asked after each wait. If it is true, nothing begins any more, and a mount under way is undone.
  IsAbandoned is_abandoned = nullptr;
};

// INVALID_ARGUMENT: a name, the propagation or the path is not valid.
absl::StatusOr<AttachmentRecord> RecordOf(const AttachRequest& request);

// The fields in which an existing attachment differs from the requested one; empty: none. Names no mount flags. A
// request without mount options agrees with any.
std::string Difference(const AttachmentRecord& requested, const AttachmentRecord& existing);

// Adds the fields that depend on the claimed volume.
void FillIn(AttachmentRecord& record, const ClaimAnswer& answer);

}  // namespace mooring::manager
