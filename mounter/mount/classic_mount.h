// New mounts by mount(2), for kernels before 5.12 and for seccomp profiles older than the new mount API.
//
// mount(2) makes a mount first and sets its flags afterwards, and what a shared parent has propagated to other
// namespaces by then keeps the flags it had: a read-only bind would be writable there for good. So the mount is made in
// a private place of its own, completed there, and moved to its target in one step (MS_MOVE), which propagates copies
// of the complete mount:
//
//   /run/mooring-mount.XXXXXX.lock   flock(2)ed by the process that prepares a mount
//   /run/mooring-mount.XXXXXX     a directory only root can enter, for this one mount,
//     └ tmpfs, unbindable         on it a mount that gives nothing to other namespaces and takes nothing from them:
//         └ mount                 a mount is not moved from below a shared one, mount(2); and no recursive bind of
//                                 a directory above, made at this moment, may take it along
//
// A preparation in a mount namespace of its own would hide it altogether, but a mount cannot be moved out of one
// without the new API, and making one copies all mounts of the host and keeps what they hold from going.
//
// Everything is gone with the object, or moved. Where the process was killed in between, the next one that needs such a
// place takes the old one down: nobody holds its lock, which is made first and removed last.
#ifndef MOORING_MOUNTER_MOUNT_CLASSIC_MOUNT_H_
#define MOORING_MOUNTER_MOUNT_CLASSIC_MOUNT_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "mounter/mount/new_mount.h"

namespace mooring {

// The private place.
class Workshop {
 public:
  static absl::StatusOr<Workshop> Open();  // the first of a process: after TakeDownAbandoned
  static void TakeDownAbandoned();

  Workshop(Workshop&& other) noexcept
      : directory_(std::exchange(other.directory_, "")), lock_(std::move(other.lock_)) {}
  Workshop& operator=(Workshop&&) = delete;
  ~Workshop();

  absl::Status MakePlace(bool is_directory) const;  // at place(), to mount on
  std::string place() const { return directory_ + "/mount"; }

 private:
  Workshop(std::string directory, UniqueFd lock) : directory_(std::move(directory)), lock_(std::move(lock)) {}
  absl::Status MakePrivate() const;

  std::string directory_;
  UniqueFd lock_;
};

class ClassicMount final : public NewMount {
 public:
  ClassicMount(Workshop workshop, UniqueFd fd) : workshop_(std::move(workshop)), fd_(std::move(fd)) {}

  static absl::StatusOr<std::unique_ptr<NewMount>> Make(const MountRequest& request, const std::string& device);
  static absl::StatusOr<std::unique_ptr<NewMount>> Clone(const UniqueFd& source, const std::string& path,
                                                         bool recursive);

  absl::Status Set(const MountFlags& flags, Propagation propagation, bool recursive) override;
  absl::Status MoveTo(const UniqueFd& place, const std::string& path) override;
  absl::Status SetPropagation(Propagation propagation, bool recursive) override;
  const UniqueFd& fd() const override { return fd_; }

 private:
  absl::StatusOr<std::vector<MountInfo>> ListBelow() const;
  absl::Status AddFlags(const std::vector<MountInfo>& mounts, const MountFlags& flags) const;
  absl::Status CheckFlagsBelow(const std::vector<MountInfo>& listed, const MountFlags& flags) const;
  absl::Status CheckNothingBelow() const;
  absl::Status Hidden(const MountInfo& mount, const MountFlags& flags) const;

  Workshop workshop_;
  UniqueFd fd_;  // after it: open, it would keep the mount from going with the workshop
};

// Of a mount that stands: exactly these flags, and nothing else of it.
absl::Status RemountWith(const UniqueFd& mount, const MountFlags& flags);

// The filesystem of `copy`, a mount of ours that nobody sees: its flags become the default ones. FAILED_PRECONDITION:
// the filesystem does not take these options now.
absl::Status RemountFilesystem(const UniqueFd& copy, const std::vector<FilesystemOption>& options);

}  // namespace mooring

#endif  // MOORING_MOUNTER_MOUNT_CLASSIC_MOUNT_H_
