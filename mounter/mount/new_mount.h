// A mount that no process sees yet: it is completed first, then attached. The object detaches it again unless it was
// attached.
//
// It is made by the mount API of Linux 5.2 (open_tree, fsopen, move_mount) and mount_setattr(2) of Linux 5.12. The
// default seccomp profiles of Docker 20.10.18, Podman 4.3 and newer allow these calls with CAP_SYS_ADMIN.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "base/file/unique_fd.h"
#include "mounter/path/target.h"

namespace mooring {

class NewMount {
 public:
  // `source`, for messages: the image, device or path that is mounted.
  NewMount(UniqueFd fd, std::string source) : fd_(std::move(fd)), source_(std::move(source)) {}

  // Sets exactly these flags, and the propagation. The mounts below a recursive copy keep their flags and get these in
  // addition.
  absl::Status Set(const MountFlags& flags, Propagation propagation, bool recursive);

  // The last step. `place` is open, and of the same kind as the mount's root; `path` is for the message.
  absl::Status MoveTo(const UniqueFd& place, const std::string& path);

  // Before or after MoveTo. Not kInherit.
  absl::Status SetPropagation(Propagation propagation, bool recursive);

  absl::StatusOr<UniqueFd> OpenRoot() const;  // for reading

  // Both need a writable mount. See MountRequest.
  absl::Status SetNewRoot(const NewRoot& owner) const;
  absl::Status SetGroup(gid_t group) const;

  const UniqueFd& fd() const { return fd_; }  // the root, O_PATH; keeps the mount busy

 private:
  absl::Status AddBelow(MountFlags flags, Propagation propagation);

  UniqueFd fd_;
  std::string source_;
};

// The filesystem on `device`. The type, the options, and the source for messages, are the request's. An ext4 is mounted
// with errors=remount-ro where the request names no `errors`: else its superblock would choose, and may say "panic".
// The caller has called CheckSuperblock.
absl::StatusOr<NewMount> MakeMount(const MountRequest& request, const std::string& device);

// A copy of the mount under `source`, and with `recursive` of all mounts below it.
absl::StatusOr<NewMount> CloneMount(const UniqueFd& source, const std::string& path, bool recursive);

// Sets exactly these flags of an attached mount, and changes nothing else of it.
absl::Status SetMountFlags(const UniqueFd& mount, const MountFlags& flags);

// Sets the propagation of an attached mount alone. Not kInherit.
absl::Status SetMountPropagation(const UniqueFd& mount, Propagation propagation);

// Attaches the mount at the target, which is made where it is missing and removed again on failure. Propagation is set
// once more: attaching below a shared mount makes a mount shared, and only then can a slave receive from its copies
// there. `last` runs when the mount is attached; if it fails, the mount is taken away again.
absl::Status Attach(NewMount mount, const Target& target, TargetKind kind, Propagation propagation, bool recursive,
                    const std::function<absl::Status()>& last = {});

}  // namespace mooring
