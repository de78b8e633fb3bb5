// The place where libmount mounts first: a directory of a tmpfs that this process has for itself. A mount gets all its
// flags there. Then it moves to its target in one step (NewMount).
//
// The tmpfs is at /run/mooring-scratch/NAME/tmpfs; if /run cannot be written to, below /dev/shm. Only root reaches it.
// It is unbindable, so a recursive bind of / leaves it out. But a new mount namespace gets a copy of it, with the
// mounts that are in it at that moment. So each mount has a mount point of its own, which is removed after use. With a
// mount point, the kernel also removes the mounts on it in all other namespaces.
//
// A lock on NAME, which lies below the tmpfs, says in all mount namespaces that its process lives.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file/unique_fd.h"
#include "mounter/mounter.h"

namespace mooring {

class Scratch;

// A mount point in the scratch of this process. The object unmounts what is there, and removes the mount point.
class ScratchPlace {
 public:
  using Kind = TargetKind;

  // Makes the scratch if this process has none in its mount namespace.
  static absl::StatusOr<ScratchPlace> Take(Kind kind);
  ScratchPlace(ScratchPlace&& other) noexcept = default;
  ScratchPlace& operator=(ScratchPlace&& other) = delete;
  ~ScratchPlace();

  const std::string& path() const { return path_; }  // only root can exchange a component of it
  UniqueFd Open() const;                             // O_PATH. Not ok: see errno

  // False: the path does not lead to the scratch. Somebody has unmounted or covered it, or this thread is in another
  // mount namespace by now. The next Take makes a new one.
  bool IsUsable() const;

  void Release();  // the mount has moved away: nothing is at the place

  // Unmounts what is at the place. A mount that this process has open lives until it is closed, attached nowhere.
  // Returns 0 or an errno.
  int Unmount();

 private:
  ScratchPlace(std::shared_ptr<Scratch> scratch, Kind kind, std::string name);

  std::shared_ptr<Scratch> scratch_;  // null: moved from, released or unmounted
  Kind kind_;
  std::string name_, path_;
};

// Removes the scratches of killed processes, with the mounts in them. It does so in threads, because an unmount may
// wait for a device. For the start of a mounter, and for a call that such a mount would make fail.
void RemoveDeadScratches();

// Removes that of this process. For processes that end by _exit(2); the others remove it by themselves.
void RemoveScratch();

}  // namespace mooring
