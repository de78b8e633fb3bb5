// Looks at a single mount without statmount(2), which came with Linux 6.8. It does not read the mount table, which
// takes longer with each mount of the host.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "base/file/unique_fd.h"
#include "mounter/mounter.h"

namespace mooring {

using IsVolumeDevice = std::function<bool(dev_t device)>;

// The mount at `path`. `place` is its root, O_PATH: a directory of an ext4, xfs or btrfs, or a bound block device. The
// device has to be a volume's by `is_volume`. MountInfo::root and MountInfo::source stay empty.
//
// Empty: something else is mounted there, or the kernel does not tell enough; then only the table does. NOT_FOUND:
// nothing is mounted there any more.
absl::StatusOr<std::optional<MountInfo>> MountWithoutTable(const UniqueFd& place, const std::string& path,
                                                           const IsVolumeDevice& is_volume);

}  // namespace mooring
