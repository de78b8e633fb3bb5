// Freezes mounted filesystems, fsfreeze(8), while their image is copied.
//
// A freeze outlives its process, and even the last mount. So the object thaws when it is destroyed, and ThawAllForGood
// thaws when the process ends in the middle of a call. After a SIGKILL the guard of mounter/copy/freeze.h thaws,
// and after a SIGKILL of both the next ThawFully.
#pragma once

#include <sys/types.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file/unique_fd.h"
#include "mounter/image/image.h"
#include "mounter/mount/new_mount.h"
#include "mounter/mounter.h"

namespace mooring {

// The superblock of a mounted filesystem. It is reached through a detached mount of this process. So the other mounts
// may be in any mount namespace, or gone.
class Superblock {
 public:
  static absl::StatusOr<std::unique_ptr<Superblock>> Open(const LoopInfo& loop, const std::string& fs_type);
  Superblock(const Superblock&) = delete;
  Superblock& operator=(const Superblock&) = delete;
  ~Superblock();

  absl::Status Sync() const;  // before Freeze, which makes the writers wait for dirty data
  absl::Status Freeze();      // FAILED_PRECONDITION: it is frozen already
  absl::Status Thaw();        // ABORTED: another process thawed it, at an unknown time; UNAVAILABLE: it is still frozen
  absl::Status ThawFully();   // whichever process froze it, and however often
  bool frozen() const { return frozen_; }        // by this object
  bool read_only() const { return read_only_; }  // then its device may have other writers
  absl::StatusOr<dev_t> DeviceOfFiles() const;   // st_dev of its root, stat(2)
  int root() const { return root_.get(); }       // the open root directory
  // The files of an xfs in /sys/fs/xfs that say how often it repeats a failed write of metadata. By default it does so
  // for ever, and a freeze waits for it. Empty: another filesystem, or /sys is read-only.
  const std::vector<UniqueFd>& retry_limits() const { return retry_limits_; }

 private:
  Superblock(std::string device, UniqueFd loop) : device_(std::move(device)), loop_(std::move(loop)) {}
  absl::Status OpenRootOf(const std::string& fs_type);

  const std::string device_;
  UniqueFd loop_;  // open, so that the device cannot become another file's
  std::optional<NewMount> mount_;
  UniqueFd root_;
  std::vector<UniqueFd> retry_limits_;
  bool frozen_ = false;
  bool read_only_ = false;
};

// The users of an image at this moment.
struct ImageUse {
  std::vector<std::unique_ptr<Superblock>> filesystems;
  std::vector<UniqueFd> written;  // block devices that other processes may write to, uppermost first
  std::set<std::string> writers;  // "loop3": all writes to the image pass through these
};

// Looks at the loop devices over the image, and at those stacked on these (kubelet makes them). The image's lock keeps
// Mooring from mounting or attaching it. Waits for a device that is going (mounter/loop/settle.h).
absl::StatusOr<ImageUse> FindUse(const LockedImage& image);

// For a process that ends in the middle of a call. Thaws all that this process has frozen, and refuses later freezes.
// The Thaw of the call that froze a filesystem is ABORTED then.
void ThawAllForGood();

// Thaws filesystems when the process that froze them dies, or takes too long.
//
// A freeze outlives its process, so a SIGKILL would leave every writer waiting. The guard is another process
// (mounter/process/side_process.h), which starts before the first freeze. It holds the root directories open, and a
// pipe that closes when the first process ends.
class ThawGuard {
 public:
  // Returns when the guard is ready. After `bound`, the guard thaws the filesystems of `roots`, whatever this process
  // does. Before that it limits how often they repeat a failed write (Superblock::retry_limits, which outlive the
  // guard), so that a freeze that hangs ends. The old limits come back with the end of the guard or of this process. If
  // both are killed, the low limits stay until the unmount.
  static absl::StatusOr<std::unique_ptr<ThawGuard>> Start(const std::vector<int>& roots,
                                                          const std::vector<int>& retry_limits,
                                                          std::chrono::milliseconds bound);
  ThawGuard(const ThawGuard&) = delete;
  ThawGuard& operator=(const ThawGuard&) = delete;
  ~ThawGuard();  // ends the guard, which thaws nothing any more; call it after the thaw

  struct RetryLimit {
    int file = -1;  // open for reading and writing
    std::array<char, 16> text = {};
    std::size_t size = 0;  // of `text`, which the file had before; 0: it could not be read
  };

 private:
  ThawGuard(pid_t pid, UniqueFd life, std::vector<RetryLimit> limits)
      : pid_(pid), life_(std::move(life)), limits_(std::move(limits)) {}

  const pid_t pid_;
  const UniqueFd life_;  // closes with this process, which the guard notices
  const std::vector<RetryLimit> limits_;
};

}  // namespace mooring
