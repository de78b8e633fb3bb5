// Contents::Copy and Contents::Thaw on the real kernel; mounter/mounter.h has the contract.
//
//   lock the sources ─▶ take back what a growth left ─▶ find who uses them ─▶ make the new files ─▶ sync
//     ─▶ copy what nobody uses ─▶ FREEZE all ─▶ copy the rest, each thawed with its data ─▶ unlock the sources
//     ─▶ grow, renew the identity, sync ─▶ rename all, or none
//
// On every way out everything frozen is thawed and no new file is left. A SIGKILL leaves both: Thaw for the one,
// IsCopyingLeftover (mounter/image.h) for the other.
#ifndef MOORING_MOUNTER_COPY_H_
#define MOORING_MOUNTER_COPY_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "mounter/mounter.h"
#include "mounter/source_policy.h"

namespace mooring {

absl::Status CopyImages(const std::vector<ImageCopy>& copies, const SourcePolicy& policy);
absl::Status ThawImage(const std::string& path, const SourcePolicy& policy);

}  // namespace mooring

#endif  // MOORING_MOUNTER_COPY_H_
