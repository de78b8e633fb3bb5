// The superblock of a btrfs, "On-disk Format" in the documentation of btrfs: what is read and changed of it without the
// kernel. Of a filesystem on one device; little-endian.
#ifndef MOORING_MOUNTER_SUPERBLOCK_BTRFS_SUPER_H_
#define MOORING_MOUNTER_SUPERBLOCK_BTRFS_SUPER_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file/unique_fd.h"

namespace mooring {

struct BtrfsSuper {
  std::uint64_t total_bytes = 0;  // of all its devices
  std::uint64_t devices = 0;
  std::uint64_t device_id = 0;  // of the device that it was read from
  std::uint64_t flags = 0, incompat = 0;
};

// FAILED_PRECONDITION: there is none that makes sense.
absl::StatusOr<BtrfsSuper> ReadBtrfsSuper(int fd, const std::string& path);

// A new random UUID: for a copy, unmounted. The metadata keeps the one it was made with (metadata_uuid, Linux 5.0), so
// the superblocks are all that is written, and what fsync(2) left in the log stays to be replayed.
absl::Status RenewBtrfs(const std::string& path);

}  // namespace mooring

#endif  // MOORING_MOUNTER_SUPERBLOCK_BTRFS_SUPER_H_
