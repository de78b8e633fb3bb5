// Whether a filesystem is mounted from a loop device, in any mount namespace. Sysfs has the kernel's own list, so
// nothing is opened and no mount is disturbed.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "mounter/mounter.h"

namespace mooring {

// Whether the path exists. An error other than ENOENT is returned, and not taken for "missing".
absl::StatusOr<bool> IsInSysfs(const std::string& path);

// The type of the filesystem mounted from a block device: "ext4", "xfs" or "btrfs". In sysfs ext2 and ext3 look like
// ext4. `name` is that of the node ("sdb"). Empty: none is mounted. A mount of another type is seen by
// IsClaimed alone.
absl::StatusOr<std::string> MountedType(const std::string& name);
absl::StatusOr<bool> IsMountedAnywhere(const std::string& name);

// Whether the block device has an exclusive user: a filesystem of any type, the device mapper, or a program. `device`
// is its name for the error. Programs that look at a new device claim it for a moment, which StaysClaimed waits for.
absl::StatusOr<bool> IsClaimed(int fd, const std::string& device);
absl::StatusOr<bool> StaysClaimed(int fd, const std::string& device);

// Set LoopInfo::mounted. A device that hangs is left out.
absl::Status AskWhetherMounted(LoopInfo& loop);
absl::Status AskWhetherMounted(std::vector<LoopInfo>& loops);

}  // namespace mooring
