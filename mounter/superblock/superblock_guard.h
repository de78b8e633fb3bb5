// Refuses a filesystem whose superblock would decide what the host does. A tenant that has a volume as a block device
// writes every byte of its superblock.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file/unique_fd.h"

namespace mooring {

// Called before each mount by the kernel and before each program that opens the filesystem. `fd` is open for reading,
// on what will be mounted, and no other process writes to it. `path` is for messages. Other types than ext2, ext3,
// ext4, xfs and btrfs are not judged.
//
//   ext4    an external journal, MMP, mount options in the superblock, default mount options that change how data or
//           user ids are written or that make the kernel log more, and groups of so few blocks that they fill the
//           kernel's memory
//   xfs     a log or a realtime section on another device, quotas that the superblock turns on, a filesystem marked
//           for repair
//   btrfs   several devices, a seed, an unfinished replacement of the device or change of the UUID, a metadata dump,
//           zoned mode
//
// errors=panic is not refused: each mount of an ext4 names its own `errors` option (mounter/mount/new_mount.h).
//
// FAILED_PRECONDITION names the field, its value, the reason and what to do. A missing superblock is refused as well.
// Other damage is left to the kernel and e2fsck.
absl::Status CheckSuperblock(int fd, const std::string& path, std::string_view fs_type);

// CheckSuperblock for the file or device that `place` (O_PATH) refers to. Returns the descriptor that was read: while
// it is open, the kernel gives the number of a loop device to no other file.
absl::StatusOr<UniqueFd> OpenChecked(const UniqueFd& place, const std::string& path, std::string_view fs_type);

bool IsExt(std::string_view fs_type);  // ext2, ext3 and ext4

}  // namespace mooring
