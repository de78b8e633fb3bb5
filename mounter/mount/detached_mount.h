// New mounts by the mount API of Linux 5.2 and mount_setattr(2) of 5.12: attached nowhere until they are complete.
#ifndef MOORING_MOUNTER_MOUNT_DETACHED_MOUNT_H_
#define MOORING_MOUNTER_MOUNT_DETACHED_MOUNT_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "mounter/mount/new_mount.h"

namespace mooring {

class DetachedMount final : public NewMount {
 public:
  explicit DetachedMount(UniqueFd fd) : fd_(std::move(fd)) {}

  static absl::StatusOr<std::unique_ptr<NewMount>> Make(const MountRequest& request, const std::string& device);
  static absl::StatusOr<std::unique_ptr<NewMount>> Clone(const UniqueFd& source, const std::string& path,
                                                         bool recursive);

  absl::Status Set(const MountFlags& flags, Propagation propagation, bool recursive) override;
  absl::Status MoveTo(const UniqueFd& place, const std::string& path) override;
  absl::Status SetPropagation(Propagation propagation, bool recursive) override;
  const UniqueFd& fd() const override { return fd_; }

 private:
  absl::Status AddBelow(MountFlags flags, Propagation propagation);

  UniqueFd fd_;
};

// Of a mount that stands: exactly these flags, and nothing else of it.
absl::Status SetMountAttributes(const UniqueFd& mount, const MountFlags& flags);

// Of the filesystem of a mount, and so of all its mounts. FAILED_PRECONDITION: it does not take them now, in its words.
absl::Status ReconfigureFilesystem(const UniqueFd& mount, const std::vector<FilesystemOption>& options);

}  // namespace mooring

#endif  // MOORING_MOUNTER_MOUNT_DETACHED_MOUNT_H_
