// Runs e2fsprogs on an ext4 that is not mounted. The programs inherit the image's lock.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "mounter/image/image.h"
#include "mounter/process/command.h"

namespace mooring {

enum class Thoroughness { kWhereMarked, kAlways };  // e2fsck skips a filesystem that is marked clean, or never does

// Makes all safe repairs (e2fsck -p). FAILED_PRECONDITION: errors remain.
//
// After an e2fsck or resize2fs that was killed, or whose write failed, e2fsck -p cannot repair the filesystem. So each
// program first saves the blocks that it overwrites, on the disk itself, and a run that did not succeed is undone:
//
//   e2fsck -p -z <image>.undo, resize2fs -z <image>.undo ──▶ e2fsck -n ──▶ remove the undo file
//                       │ killed, failed                        │ not whole
//                       ▼                                       │
//                    e2undo ◀───────────────────────────────────┘
//                       └──▶ remove the undo file ──▶ e2fsck -f -p
absl::Status CheckExt4(const LockedImage& image, Thoroughness thoroughness);

// Grows the filesystem to the size of the image, after a check.
absl::Status ResizeExt4(const LockedImage& image);

// Puts an image with an undo file back as it was before the check or the growth, and checks it. Without an undo file
// this does nothing.
absl::Status UndoUnfinished(const LockedImage& image);

// Environment for a file that no other process knows. It makes e2fsprogs skip the search for mounts of the file
// (libext2fs, ismounted.c). That search asks every loop device in /proc/mounts for its file, and hangs where one does.
inline const std::vector<std::string> kNotMounted = {"EXT2FS_PRETEND_RO_MOUNT=1", "EXT2FS_PRETEND_ROOTFS=1"};

// The command of e2fsck, which looks for no external journal. Without "-j /dev/null" it looks for one on all devices of
// the host, and writes to it. CheckSuperblock refuses such a journal, but the internal journal may replay another
// superblock, which e2fsck then reads.
std::vector<std::string> CommandOfE2fsck(std::vector<std::string> options, const std::string& path);

bool IsRepaired(const CommandResult& result);  // of e2fsck -p

}  // namespace mooring
