// A filesystem that is a copy of another's, made one of its own: by its UUID the kernel, and whoever mounts by UUID,
// tells the two apart. xfs and btrfs are not mounted beside another of the same UUID.
#ifndef MOORING_MOUNTER_FILESYSTEM_IDENTITY_H_
#define MOORING_MOUNTER_FILESYSTEM_IDENTITY_H_

#include <string>

#include "absl/status/status.h"
#include "base/file/unique_fd.h"

namespace mooring {

// Gives the filesystem in `path` a new random UUID; its contents stay. `path` is an image file that nobody else knows
// and nothing is mounted from: a copy of a frozen filesystem, of one that was unmounted, or of one whose power was cut.
// What is in the journal is replayed first where the UUID is in there, too. Interrupted or failed, the file is of no
// use any more: make another copy.
//
// `held`: the programs that are run inherit it, and with it the lock of whoever makes the copy. What was written need
// not be on disk yet. FAILED_PRECONDITION: the filesystem is damaged, or a program is missing. INVALID_ARGUMENT:
// neither ext4, xfs nor btrfs.
absl::Status RenewIdentity(const std::string& path, const std::string& fs_type, const UniqueFd& held);

// INVALID_ARGUMENT: neither of the three. Of none (empty) there is nothing to renew.
absl::Status CheckCanRenew(const std::string& fs_type);

}  // namespace mooring

#endif  // MOORING_MOUNTER_FILESYSTEM_IDENTITY_H_
