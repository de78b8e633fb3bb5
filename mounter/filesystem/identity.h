// Gives a copy of a filesystem an identity of its own. The UUID tells the two apart for the kernel and for mounts by
// UUID. The kernel mounts no xfs or btrfs beside another one with the same UUID.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "base/file/unique_fd.h"

namespace mooring {

// Gives the filesystem in `path` a new random UUID; its contents stay. `path` is an unmounted image file, or a block
// device, that nobody else uses. It is a copy of a filesystem that was frozen, unmounted, or cut off by a power cut.
// The journal is replayed first where it holds the UUID too. After an interruption or a failure the copy is useless:
// make another one.
//
// The programs inherit `held`, and with it the lock of the call that makes the copy. The caller syncs the file
// afterwards. FAILED_PRECONDITION: the filesystem is damaged, or a program is missing. INVALID_ARGUMENT: the type is
// neither ext4, xfs nor btrfs.
absl::Status RenewIdentity(const std::string& path, const std::string& fs_type, const UniqueFd& held);

// INVALID_ARGUMENT: the type is none of these three. The empty type is allowed: there is nothing to renew.
absl::Status CheckCanRenew(const std::string& fs_type);

}  // namespace mooring
