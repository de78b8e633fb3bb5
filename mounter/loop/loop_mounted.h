// Whether a filesystem is mounted from a loop device, in whatever mount namespace. Sysfs has the kernel's own list of
// what is mounted: nothing is opened for it, and a mount is not disturbed.
#ifndef MOORING_MOUNTER_LOOP_LOOP_MOUNTED_H_
#define MOORING_MOUNTER_LOOP_LOOP_MOUNTED_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "mounter/mounter.h"

namespace mooring {

// What cannot be looked at does not pass for missing.
absl::StatusOr<bool> IsInSysfs(const std::string& path);

// The filesystem that is mounted from any block device, by the name of its node ("sdb"): "ext4" (ext2 and ext3 are
// the same to sysfs), "xfs" or "btrfs"; empty: none.
absl::StatusOr<std::string> MountedType(const std::string& name);
absl::StatusOr<bool> IsMountedAnywhere(const std::string& name);

// These set LoopInfo::mounted; nothing is known of one that hangs.
absl::Status AskWhetherMounted(LoopInfo& loop);
absl::Status AskWhetherMounted(std::vector<LoopInfo>& loops);

}  // namespace mooring

#endif  // MOORING_MOUNTER_LOOP_LOOP_MOUNTED_H_
