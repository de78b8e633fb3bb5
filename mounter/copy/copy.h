// Contents::Copy and Contents::Thaw on the real kernel; mounter/mounter.h has the contract.
//
//   lock the sources ─▶ take back what a growth left ─▶ find who uses them ─▶ make the new files
//     ─▶ copy what nobody uses ─▶ copy the rest at one instant (mounter/copy/copy_instant.h) ─▶ unlock the sources
//     ─▶ grow, renew the identity, sync ─▶ rename all, or none
//
// On every way out everything frozen is thawed and no new file is left. After a SIGKILL a guard process thaws, or Thaw
// where that was killed, too; IsCopyingLeftover (mounter/image/image.h) finds the files.
#ifndef MOORING_MOUNTER_COPY_COPY_H_
#define MOORING_MOUNTER_COPY_COPY_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "mounter/mounter.h"
#include "mounter/path/source_policy.h"

namespace mooring {

absl::Status CopyImages(const std::vector<ImageCopy>& copies, const SourcePolicy& policy);
absl::Status ThawImage(const std::string& path, const SourcePolicy& policy);

}  // namespace mooring

#endif  // MOORING_MOUNTER_COPY_COPY_H_
