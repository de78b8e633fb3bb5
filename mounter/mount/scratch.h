// The place where libmount mounts first: a directory of a tmpfs that this process has for itself. A mount gets all its
// flags there. Then it moves to its target in one step (NewMount).
//
// The tmpfs is at /run/mooring-scratch/NAME; if nothing can be made in /run, below /dev/shm. Only root reaches it. It
// is unbindable: mounts in it appear in no other mount namespace, and a recursive bind of / leaves it out. A lock on
// its root says that its process lives. A process that makes its own tmpfs removes those of processes that were killed,
// with the mounts in them.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file/unique_fd.h"

namespace mooring {

class Scratch;

// A mount point in the scratch of this process. The object unmounts what is there, unless Release was called.
class ScratchPlace {
 public:
  enum class Kind { kDirectory, kFile };

  // Makes the scratch if this process has none in its mount namespace.
  static absl::StatusOr<ScratchPlace> Take(Kind kind);
  ScratchPlace(ScratchPlace&& other) noexcept;
  ScratchPlace& operator=(ScratchPlace&& other) noexcept;
  ~ScratchPlace();

  const std::string& path() const { return path_; }  // only root can exchange a component of it

  // False: the path does not lead to the scratch. Somebody has unmounted or covered it, or this thread is in another
  // mount namespace by now. The next Take makes a new one.
  bool IsUsable() const;

  void Release();  // the mount has moved away: nothing is at the place

  // Unmounts what is at the place. A mount that this process has open lives until it is closed, attached nowhere.
  // Returns 0 or an errno.
  int Unmount();

 private:
  ScratchPlace(std::shared_ptr<Scratch> scratch, Kind kind, int number);

  std::shared_ptr<Scratch> scratch_;  // null: moved from, released or unmounted
  Kind kind_;
  int number_;
  std::string path_;
};

// Makes the scratch of this process, so that those of killed processes are removed now. Without this call the first
// mount does it. An error names the directory.
absl::Status PrepareScratch();

// Removes it. For processes that end by _exit(2); the others remove it by themselves.
void RemoveScratch();

}  // namespace mooring
