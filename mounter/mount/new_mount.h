// A mount that nobody sees yet: complete it, then attach it. It goes with the object unless it was attached.
//
//   MountApi::kDetached   open_tree or fsopen … fsmount, mount_setattr, move_mount   mounter/mount/detached_mount.h
//   MountApi::kClassic    mount(2) in a private place, then MS_MOVE                  mounter/mount/classic_mount.h
//
// The first needs Linux 5.12 and a seccomp profile that knows the calls; the second is for where these are missing, and
// has the same results.
#ifndef MOORING_MOUNTER_MOUNT_NEW_MOUNT_H_
#define MOORING_MOUNTER_MOUNT_NEW_MOUNT_H_

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/file/unique_fd.h"
#include "mounter/path/target.h"

namespace mooring {

enum class MountApi { kDetached, kClassic };

// `work` by the first of them, and by the second where the first turns out to be missing. Whatever `work` began it has
// to undo when it fails.
absl::Status WithMountApi(const std::function<absl::Status(MountApi)>& work);

class NewMount {
 public:
  NewMount() = default;
  NewMount(const NewMount&) = delete;
  NewMount& operator=(const NewMount&) = delete;
  virtual ~NewMount() = default;

  // Exactly these flags, and the propagation. The mounts below, of a recursive copy, keep their flags and get these in
  // addition.
  virtual absl::Status Set(const MountFlags& flags, Propagation propagation, bool recursive) = 0;

  // The last step. `place` is open, and of the same kind; `path` is for the message.
  virtual absl::Status MoveTo(const UniqueFd& place, const std::string& path) = 0;

  // Not kInherit; also of one that was moved.
  virtual absl::Status SetPropagation(Propagation propagation, bool recursive) = 0;

  virtual const UniqueFd& fd() const = 0;  // its root, O_PATH; holds it busy
};

// The filesystem on `device`: type, options, and the source for messages, are the request's. An ext4 is mounted with
// errors=remount-ro where the request names no `errors`: else its superblock would choose, and may say "panic". The
// caller has asked CheckSuperblock.
absl::StatusOr<std::unique_ptr<NewMount>> MakeMount(MountApi api, const MountRequest& request,
                                                    const std::string& device);

// A copy of the mount under `source`, and recursive of all below it.
absl::StatusOr<std::unique_ptr<NewMount>> CloneMount(MountApi api, const UniqueFd& source, const std::string& path,
                                                     bool recursive);

absl::StatusOr<UniqueFd> OpenRoot(const NewMount& mount);   // for reading
absl::Status SetGroup(const NewMount& mount, gid_t group);  // see MountRequest::group; it has to be writable

// At the target, which is made where it is missing and removed again on failure. Propagation is set once more:
// attaching below a shared mount makes a mount shared, and only then has a slave somebody to receive from: its copies
// there. `last` is what else belongs to it, done when it is mounted: where that fails, all of it does.
absl::Status Attach(std::unique_ptr<NewMount> mount, const Target& target, TargetKind kind, Propagation propagation,
                    bool recursive, const std::function<absl::Status()>& last = {});

// The error of a filesystem that cannot be mounted; `detail` is what the kernel said of it besides, or empty.
absl::Status FilesystemError(int error, std::string detail, const MountRequest& request);

}  // namespace mooring

#endif  // MOORING_MOUNTER_MOUNT_NEW_MOUNT_H_
