// Filesystems beside ext4, xfs, btrfs and tmpfs: the names of their drivers.
#pragma once

#include <string>
#include <string_view>

namespace mooring {

// Whether a pool of devices may have it. Each such filesystem is on one block device. Nothing on it names another
// device, a file or a server, or the superblock guard refuses what does (ext2, ext3: an external journal).
bool IsOnOneDevice(std::string_view driver);

std::string FilesystemsOnOneDevice();  // "ext2, ext3, …", for messages

// Whether the driver mounts what libblkid calls `filesystem`. Most have the same name: not ntfs3.
bool IsDriverOf(std::string_view driver, std::string_view filesystem);

}  // namespace mooring
