// A volume of every mode, and claims of it.
#pragma once

#include "manager/claims/claim_rules.h"
#include "manager/records/names.h"
#include "tests/manager/prelude.h"

namespace mooring::manager {

inline constexpr AccessMode kAllModes[] = {
    AccessMode::kSingleNodeReaderOnly,  AccessMode::kSingleNodeWriter,    AccessMode::kSingleNodeSingleWriter,
    AccessMode::kSingleNodeMultiWriter, AccessMode::kMultiNodeReaderOnly, AccessMode::kMultiNodeSingleWriter,
    AccessMode::kMultiNodeMultiWriter,
};

inline Capability FileSystem(AccessMode access) { return {access, AttachmentMode::kFileSystem}; }
inline Capability Block(AccessMode access) { return {access, AttachmentMode::kBlockDevice}; }

inline Volume AVolume() {
  Volume volume;
  volume.key = {"default", "db"};
  volume.external_id = "vol-1";
  volume.plugin = "p";
  for (const AccessMode access : kAllModes) {
    volume.capabilities.push_back(FileSystem(access));
    volume.capabilities.push_back(Block(access));
  }
  return volume;
}

inline Claim AClaim(const std::string& allocation, ClaimMode mode, AccessMode access) {
  Claim claim;
  claim.volume = AVolume().key;
  claim.allocation = allocation;
  claim.node = "here";
  claim.mode = mode;
  claim.capability = FileSystem(access);
  return claim;
}

}  // namespace mooring::manager
