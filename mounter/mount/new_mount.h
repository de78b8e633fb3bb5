// A mount that is completed in a private place first, and then attached at its target. libmount makes it in the scratch
// of this process (mounter/mount/scratch.h). The object unmounts it there, unless it was attached.
//
// Each step but libmount's acts on the open mount: mount_setattr(2) of Linux 5.12 and move_mount(2) of 5.2. The default
// seccomp profiles of Docker 20.10.18, Podman 4.3 and newer allow these calls with CAP_SYS_ADMIN.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/file/unique_fd.h"
#include "mounter/mount/scratch.h"
#include "mounter/path/target.h"

namespace mooring {

class NewMount {
 public:
  // `source`, for messages: the image, device or path that is mounted. Without a place the mount is attached nowhere.
  NewMount(UniqueFd fd, std::string source, std::optional<ScratchPlace> place = std::nullopt)
      : place_(std::move(place)), fd_(std::move(fd)), source_(std::move(source)) {}

  // Sets exactly these flags, and the propagation. The mounts below a recursive copy keep their flags and get these in
  // addition.
  absl::Status Set(const MountFlags& flags, Propagation propagation, bool recursive);

  // Shows the files under other ids, those of an open user namespace (mounter/mount/id_map.h). For a mount that is
  // attached nowhere. FAILED_PRECONDITION: the kernel has no such mounts of a filesystem in it.
  absl::Status MapIds(const UniqueFd& user_namespace, bool recursive);

  // Takes it out of the scratch. It lives as long as this object, or another open file of it.
  absl::Status Hide();

  // The last step. `target` is open, and of the same kind as the mount's root; `path` is for the message.
  absl::Status MoveTo(const UniqueFd& target, const std::string& path);

  // Before or after MoveTo. Not kInherit.
  absl::Status SetPropagation(Propagation propagation, bool recursive);

  absl::StatusOr<UniqueFd> OpenRoot() const;  // for reading

  // Both need a writable mount. See MountRequest.
  absl::Status SetNewRoot(const NewRoot& owner) const;
  absl::Status SetGroup(gid_t group) const;

  const std::string& source() const { return source_; }
  const UniqueFd& fd() const { return fd_; }  // the root, O_PATH; keeps the mount busy

 private:
  absl::Status AddBelow(MountFlags flags, Propagation propagation);

  std::optional<ScratchPlace> place_;
  UniqueFd fd_;
  std::string source_;
};

// libmount mounts the filesystem on `device`, with the request's type, options, flags and propagation. Read-only is
// left out: it would make the superblock read-only, and so all mounts of it. Set sets it for this mount. Only a
// filesystem without a table of options gets it: by hand at once, else if it refuses to be written to. An ext4 is
// mounted with errors=remount-ro where the request names no `errors`: else its superblock would choose, and may say
// "panic". The caller has called CheckSuperblock. FAILED_PRECONDITION: the filesystem refuses the device or an option.
// The message holds the kernel's own words.
absl::StatusOr<NewMount> MakeMount(const MountRequest& request, const std::string& device);

// The same for work on the filesystem, in a mount that is attached nowhere.
absl::StatusOr<NewMount> MakeHiddenMount(const MountRequest& request, const std::string& device);

// libmount binds the mount under `source`, and with `recursive` all mounts below it. `kind` is that of the source. The
// source is not asked, because its filesystem may hang.
absl::StatusOr<NewMount> BindMount(const UniqueFd& source, const std::string& path, TargetKind kind,
                                   const MountFlags& flags, Propagation propagation, bool recursive);

// The same without libmount, flags and propagation: a copy that is attached nowhere, open_tree(2). It can be attached
// in another mount namespace, or be a view for work on the filesystem.
absl::StatusOr<NewMount> CloneMount(const UniqueFd& source, const std::string& path, bool recursive);

// The mount of a directory of the filesystem instead of all of it. `subdirectory` is relative. FAILED_PRECONDITION: it
// does not lie in this filesystem, or a link is on the way.
absl::StatusOr<NewMount> PartOf(NewMount mount, const std::string& subdirectory);

// Lets libmount set exactly these flags of an attached mount, and change nothing else of it.
absl::Status SetMountFlags(const UniqueFd& mount, const MountFlags& flags);

// Lets libmount change options of the mounted filesystem, and so of all its mounts, whose flags stay. `lazytime`: its
// superblock has that option. `path` is for messages. FAILED_PRECONDITION: the filesystem does not take them now.
absl::Status ChangeFilesystem(const UniqueFd& mount, const std::string& path, bool lazytime,
                              const std::vector<FilesystemOption>& options);

// Attaches the mount at the target, which is made where it is missing and removed again on failure. Propagation is set
// once more: attaching below a shared mount makes a mount shared, and only then can a slave receive from its copies
// there. `last` runs when the mount is attached; if it fails, the mount is taken away again.
absl::Status Attach(NewMount mount, const Target& target, TargetKind kind, Propagation propagation, bool recursive,
                    const std::function<absl::Status()>& last = {});

}  // namespace mooring
