// The data of images in use, copied so that all copies are of one instant.
//
// Where the filesystem below shares extents: freeze, share, thaw. Elsewhere the data is copied before while the volume
// is in use; then it stands still only until what has changed since is copied, too:
//
//   copy the data ─▶ copy what changed, again and again while that gets less ─▶ FREEZE ─▶ copy what changed ─▶ thaw
//
// A block device cannot be frozen. Its copy is of one instant when nothing was written to it during a whole pass, by
// its write counters (mounter/loop/write_counters.h); else there is another pass.
#ifndef MOORING_MOUNTER_COPY_COPY_INSTANT_H_
#define MOORING_MOUNTER_COPY_COPY_INSTANT_H_

#include <chrono>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "mounter/copy/freeze.h"
#include "mounter/image/image.h"
#include "mounter/image/new_file.h"
#include "mounter/mounter.h"

namespace mooring {

// No filesystem stands still longer at a time for a copy, and none more than three times. The guard has more patience
// than the copy, for it ends a freeze whose process hangs.
inline constexpr std::chrono::seconds kLongestFreeze{5};
inline constexpr std::chrono::seconds kGuardedFreeze{10};

struct CopyJob {
  ImageCopy copy;
  LockedImage source;
  std::unique_ptr<NewFile> file;
  ImageUse use;         // goes first: nobody waits for a freeze while a large file is removed
  bool shares = false;  // the extents of the source

  bool mounted() const { return !use.filesystems.empty(); }
  bool written() const { return !use.written.empty(); }
  bool idle() const { return !mounted() && !written(); }
};

// RESOURCE_EXHAUSTED: the pool has not the room for a copy. Asked before it is filled to the last byte, which the
// volumes that are there would feel.
absl::Status CheckRoom(const CopyJob& job);

// Fills the files of the jobs that are not idle, which are empty.
// FAILED_PRECONDITION: the volumes are written too fast, or hold too much, for a freeze of kLongestFreeze; or a block
// device is written to without a pause. ABORTED: somebody else thawed meanwhile.
absl::Status CopyAtOneInstant(std::vector<CopyJob>& jobs);

}  // namespace mooring

#endif  // MOORING_MOUNTER_COPY_COPY_INSTANT_H_
