// Mounted filesystems that stand still, fsfreeze(8), while their image is copied.
//
// A freeze outlives the process that asked for it, and even the last mount. So whoever froze thaws on every way out:
// the object when it goes, the process when it ends in the middle of a call (ThawAllForGood). After a SIGKILL the guard
// of mounter/copy/thaw_guard.h does it, and where that was killed too, the next ThawFully.
#ifndef MOORING_MOUNTER_COPY_FREEZE_H_
#define MOORING_MOUNTER_COPY_FREEZE_H_

#include <sys/types.h>

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file/unique_fd.h"
#include "mounter/image/image.h"
#include "mounter/mount/new_mount.h"
#include "mounter/mounter.h"

namespace mooring {

// The superblock of a mounted filesystem, through a mount of its own that nobody sees: so it makes no difference in
// which mount namespace the others are, or whether there are any left.
class Superblock {
 public:
  static absl::StatusOr<std::unique_ptr<Superblock>> Open(const LoopInfo& loop, const std::string& fs_type);
  Superblock(const Superblock&) = delete;
  Superblock& operator=(const Superblock&) = delete;
  ~Superblock();

  absl::Status Sync() const;  // what is written beforehand does not hold up the writers once it is frozen
  absl::Status Freeze();      // FAILED_PRECONDITION: somebody else has done that
  absl::Status Thaw();        // ABORTED: somebody else has done that, who knows when; UNAVAILABLE: it is frozen still
  absl::Status ThawFully();   // whoever froze it
  bool frozen() const { return frozen_; }        // by this object
  bool read_only() const { return read_only_; }  // then it writes nothing, and its device may have other writers
  absl::StatusOr<dev_t> DeviceOfFiles() const;   // what stat(2) says of its root
  int root() const { return root_.get(); }       // the open root directory

 private:
  Superblock(std::string device, UniqueFd loop) : device_(std::move(device)), loop_(std::move(loop)) {}
  absl::Status OpenRootOf(const std::string& fs_type);

  const std::string device_;
  UniqueFd loop_;  // held: it cannot become another file's
  std::optional<NewMount> mount_;
  UniqueFd root_;
  bool frozen_ = false;
  bool read_only_ = false;
};

// What works on an image at this moment.
struct ImageUse {
  std::vector<std::unique_ptr<Superblock>> filesystems;
  std::vector<UniqueFd> written;  // block devices that may be written by whoever has them open, uppermost first
  std::set<std::string> writers;  // "loop3": all that is written to the image passes through these
};

// Looks at the loop devices over the image, and at those over these (kubelet makes them). Under its lock, which keeps
// it from being mounted or attached by us. A device that goes with its last user is waited for.
absl::StatusOr<ImageUse> FindUse(const LockedImage& image);

// For the end of a process in the middle of a call: thaws all that this process has frozen, and nothing is frozen any
// more. The Thaw of whoever froze it is ABORTED then.
void ThawAllForGood();

}  // namespace mooring

#endif  // MOORING_MOUNTER_COPY_FREEZE_H_
