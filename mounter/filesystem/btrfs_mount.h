// A mounted btrfs. Its device number is not that of a device, so only an ioctl(2) tells on which device it lies.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file/unique_fd.h"

namespace mooring {

// In all functions `root` is its open root directory, and `path` is for messages.

// FAILED_PRECONDITION: it is not on the device `number`, or with `alone` it is on other devices as well.
absl::Status CheckBtrfsDevice(const UniqueFd& root, const std::string& path, dev_t number, bool alone);

// The unused bytes of its only device behind its end. 0: it has several devices.
absl::StatusOr<std::uint64_t> BtrfsUnusedBytes(const UniqueFd& root, const std::string& path);

// Grows it to the size of its device, which is `bytes`. The mount of `root` is writable. OUT_OF_RANGE: Linux gives no
// btrfs a size below 256 MiB.
absl::Status GrowBtrfs(const UniqueFd& root, const std::string& path, std::uint64_t bytes);

// How many read, write, flush, corruption and generation errors its device had since it was made, or since the count
// was reset, btrfs-device(8).
absl::StatusOr<std::uint64_t> BtrfsErrors(const UniqueFd& root, const std::string& path);

}  // namespace mooring
