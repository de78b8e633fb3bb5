// Contents::Copy and Contents::Thaw on the real kernel; mounter/mounter.h has the contract.
//
//   make the new files ─▶ lock the sources ─▶ undo a growth that was cut short ─▶ find their users
//     ─▶ copy the unused sources ─▶ copy the others at one instant (mounter/copy/copy_instant.h) ─▶ unlock the sources
//     ─▶ grow, renew the identity, sync ─▶ rename all, or none
//
// Every return thaws all frozen filesystems, and a failure leaves no new file. After a SIGKILL a guard process thaws,
// or Thaw if the guard was killed as well. IsCopyingLeftover (mounter/image/image.h) finds the files.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "mounter/mounter.h"
#include "mounter/path/source_policy.h"

namespace mooring {

absl::Status CopyImages(const std::vector<ImageCopy>& copies, const SourcePolicy& policy);
absl::Status ThawImage(const std::string& path, const SourcePolicy& policy);

}  // namespace mooring
