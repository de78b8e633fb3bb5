// The superblocks of an ext4, "Ext4 Disk Layout" in the kernel's documentation: what is read and changed of them
// without e2fsprogs.
#ifndef MOORING_MOUNTER_SUPERBLOCK_EXT4_SUPER_H_
#define MOORING_MOUNTER_SUPERBLOCK_EXT4_SUPER_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file/unique_fd.h"

namespace mooring {

// The fields of the primary superblock that change how a host mounts the filesystem, and its size.
struct Ext4Super {
  std::uint32_t compat = 0, incompat = 0;
  std::uint64_t bytes = 0;           // of the filesystem; its device or image may be larger
  std::uint32_t log_block_size = 0;  // of 1 KiB; more than 6 makes no sense
  std::uint32_t blocks_per_group = 0;
  std::uint32_t journal_inode = 0, journal_device = 0;
  std::string journal_uuid;  // as text; empty where it is zero
  std::uint32_t default_mount_options = 0;
  std::string mount_options;
};

// FAILED_PRECONDITION: there is none. Its checksum is not looked at.
absl::StatusOr<Ext4Super> ReadExt4Super(int fd, const std::string& path);

// A new random UUID, and a new seed for the hashes of its directories: for one that nobody has written to yet. Its
// checksums have a seed of their own (metadata_csum_seed), so that no others hang on the UUID; else
// FAILED_PRECONDITION.
absl::Status RenewFreshExt4(const UniqueFd& file, const std::string& path);

}  // namespace mooring

#endif  // MOORING_MOUNTER_SUPERBLOCK_EXT4_SUPER_H_
