// A mounted btrfs. It has a device number of its own, of no device: which one it lies on, it has to be asked.
#ifndef MOORING_MOUNTER_FILESYSTEM_BTRFS_MOUNT_H_
#define MOORING_MOUNTER_FILESYSTEM_BTRFS_MOUNT_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file/unique_fd.h"

namespace mooring {

// `root` is its open root directory, `path` for messages, in all of these.

// FAILED_PRECONDITION: it is not on the device of that number, or, where it is to be alone on it, on others as well.
absl::Status CheckBtrfsDevice(const UniqueFd& root, const std::string& path, dev_t number, bool alone);

// The bytes of its only device behind its end. 0 where it has several devices.
absl::StatusOr<std::uint64_t> BtrfsUnusedBytes(const UniqueFd& root, const std::string& path);

// To the size of its device, which is `bytes`. `root` is of a writable mount. OUT_OF_RANGE: Linux gives no btrfs a size
// below 256 MiB.
absl::Status GrowBtrfs(const UniqueFd& root, const std::string& path, std::uint64_t bytes);

// What its device did wrong since it was made, or since somebody has reset that: read, write, flush, corruption and
// generation errors, btrfs-device(8).
absl::StatusOr<std::uint64_t> BtrfsErrors(const UniqueFd& root, const std::string& path);

}  // namespace mooring

#endif  // MOORING_MOUNTER_FILESYSTEM_BTRFS_MOUNT_H_
