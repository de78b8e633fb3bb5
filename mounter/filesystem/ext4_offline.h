// What e2fsprogs do to an ext4 that is not mounted. All under the image's lock, which the programs inherit.
#ifndef MOORING_MOUNTER_FILESYSTEM_EXT4_OFFLINE_H_
#define MOORING_MOUNTER_FILESYSTEM_EXT4_OFFLINE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "mounter/image/image.h"

namespace mooring {

enum class Thoroughness { kWhereMarked, kAlways };  // e2fsck looks closer only at what is not marked clean, or has to

// Repairs what can be repaired safely; FAILED_PRECONDITION where errors remain.
//
// e2fsck or resize2fs that is killed half-way, or whose write fails, leaves what no e2fsck -p mends: so each notes down
// first what it overwrites, and what did not succeed is taken back:
//
//   e2fsck -p -z <image>.undo, resize2fs -z <image>.undo ──▶ e2fsck -n ──▶ remove the undo file
//                       │ killed, failed                        │ not whole
//                       ▼                                       │
//                    e2undo ◀───────────────────────────────────┘
//                       └──▶ remove the undo file ──▶ e2fsck -f -p
absl::Status CheckExt4(const LockedImage& image, Thoroughness thoroughness);

// To the size of the image, after a check.
absl::Status ResizeExt4(const LockedImage& image);

// For an image with an undo file: as it was before the check or the growth, and checked. Without one, nothing.
absl::Status TakeBack(const LockedImage& image);

// For a file that nobody else knows. Else e2fsprogs look whether it is mounted: they read all of /proc/mounts, and ask
// every loop device there for its file, which hangs where one of them does. This answers "no" in its place (libext2fs,
// ismounted.c).
inline const std::vector<std::string> kNotMounted = {"EXT2FS_PRETEND_RO_MOUNT=1", "EXT2FS_PRETEND_ROOTFS=1"};

// Options of e2fsck. Without them it looks for an external journal on all devices of the host, and writes to the one it
// finds. CheckSuperblock refuses such a journal, but e2fsck reads the superblock once more after it has replayed an
// internal one, which may hold another superblock.
inline const std::vector<std::string> kNoExternalJournal = {"-j", "/dev/null"};

}  // namespace mooring

#endif  // MOORING_MOUNTER_FILESYSTEM_EXT4_OFFLINE_H_
