// Looks at a single mount without statmount(2), which came with Linux 6.8. It does not read the mount table, which
// takes longer with each mount of the host.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "base/file/unique_fd.h"
#include "mounter/mounter.h"
#include "mounter/path/source_policy.h"

namespace mooring {

// The mount at `path`. `place` is its root, O_PATH. `sources` says what belongs to volumes. It is
//   - a directory of an ext4, xfs or btrfs on the device of a volume, or a bound node of such a device,
//   - the root of a tmpfs that RecallMemory knows, or
//   - a directory volume on an ext4, xfs or btrfs.
// MountInfo::root and MountInfo::source are as the interface says. An ext2 or ext3 counts as an ext4.
//
// Empty: something else is mounted there, or the kernel does not tell enough; then only the table does. NOT_FOUND:
// nothing is mounted there any more.
absl::StatusOr<std::optional<MountInfo>> MountWithoutTable(const UniqueFd& place, const std::string& path,
                                                           const SourcePolicy& sources);

}  // namespace mooring
