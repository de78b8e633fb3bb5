// Reads and changes the superblock of a btrfs on one device without the kernel. "On-disk Format" in the documentation
// of btrfs describes it; little-endian.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file/unique_fd.h"

namespace mooring {

struct BtrfsSuper {
  std::uint64_t total_bytes = 0;  // sum of all devices
  std::uint64_t devices = 0;
  std::uint64_t device_id = 0;  // the device that the superblock was read from
  std::uint64_t flags = 0, incompat = 0;
};

// FAILED_PRECONDITION: there is no valid superblock.
absl::StatusOr<BtrfsSuper> ReadBtrfsSuper(int fd, const std::string& path);

// Whether all copies of the superblock are of the same change, as after mkfs. FAILED_PRECONDITION names the first that
// is not.
absl::Status CheckBtrfsCopies(int fd, const std::string& path);

// Gives an unmounted copy a new random UUID. The metadata keeps the old one (metadata_uuid, Linux 5.0), so only the
// superblocks are written. The log, with the data of fsync(2), stays to be replayed.
absl::Status RenewBtrfs(const std::string& path);

}  // namespace mooring
