// Copies the data of images in use, so that all copies are of one instant.
//
// On a filesystem that shares extents: freeze, share, thaw. Elsewhere the data is copied while the volume is in use.
// Then the volume is frozen only while the last changes are copied:
//
//   copy the data ─▶ copy the changes, again while they get fewer ─▶ FREEZE ─▶ copy the changes ─▶ thaw
//
// A block device cannot be frozen. Its copy is of one instant if its write counters show no write during a whole pass.
// Otherwise there is another pass.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "mounter/copy/freeze.h"
#include "mounter/image/image.h"
#include "mounter/mounter.h"

namespace mooring {

// A copy freezes a filesystem for at most kLongestFreeze at a time, and at most three times. The guard waits longer
// than the copy, because it ends the freeze of a process that hangs.
inline constexpr std::chrono::seconds kLongestFreeze{5};
inline constexpr std::chrono::seconds kGuardedFreeze{10};

struct CopyJob {
  ImageCopy copy;
  LockedImage source;
  std::unique_ptr<NewFile> file;
  ImageUse use;         // destroyed first, so that the thaw does not wait for the removal of a large file
  bool shares = false;  // `file` shares the extents of the source

  bool mounted() const { return !use.filesystems.empty(); }
  bool written() const { return !use.written.empty(); }
  bool idle() const { return !mounted() && !written(); }
};

// RESOURCE_EXHAUSTED: the pool has no room for the copy. Checked first, because a full pool would fail the writes of
// the volumes in it.
absl::Status CheckRoom(const CopyJob& job);

// Fills the empty files of the jobs that are not idle.
// FAILED_PRECONDITION: the volumes are written too fast, or hold too much, for a freeze of kLongestFreeze. Also: a
// block device is written to without a pause. ABORTED: another process thawed a filesystem meanwhile.
absl::Status CopyAtOneInstant(std::vector<CopyJob>& jobs);

}  // namespace mooring
