// An image file under its lock, and the files that stand beside it while a program works on it.
//
// A call that attaches, formats, checks, grows or deletes an image holds its lock, and the programs that it runs
// inherit the lock. So a program that outlives its plugin keeps all others away from the file that it writes. On a
// network filesystem the lock holds between hosts.
//
//   <image>.formatting-<8 hex digits>   a filesystem that mkfs makes; never worth keeping
//   <image>.copying-<8 hex digits>      a copy that becomes <image>; the call that makes it holds its lock
//   <image>.undo                        the blocks that e2fsck or resize2fs overwrites in an ext4, e2undo(8)
//
// While there is an undo file, the image is neither attached nor mounted.
#pragma once

#include <sys/stat.h>

#include <chrono>
#include <functional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/file/directory.h"
#include "base/file/unique_fd.h"

namespace mooring {

struct LockedImage {
  std::string path;
  UniqueFd fd;  // holds the lock
  struct stat status = {};
};

// OK for a regular file with one name, and for everything that is no regular file.
// FAILED_PRECONDITION: the file has hard links. A second name could lead to any file on the same filesystem, so every
// use of an image refuses it.
absl::Status CheckOneName(const struct stat& status, const std::string& path);

// Takes the lock that calls hold while they work on an image, and returns the descriptor that has it. For a file that
// is a lock of one byte, fcntl_locking(2): on NFS, flock(2) would lock every byte, also that of an attachment. For
// block devices and on FUSE it is flock(2). The descriptor of a file is open for writing, unless its mount is
// read-only. ABORTED: another process held the lock for all of `patience`.
absl::StatusOr<UniqueFd> LockOpenImage(UniqueFd file, const std::string& path, std::chrono::milliseconds patience);

// Locks the file that `open` opens. A format replaces an image, so the path may lead to another file by the time the
// lock is held. Then that file is opened and locked instead. ABORTED: another process held the lock for all of
// `patience`.
absl::StatusOr<UniqueFd> OpenUnderLock(const std::string& path, const std::function<absl::StatusOr<UniqueFd>()>& open,
                                       std::chrono::milliseconds patience);

// The image, or block device, at the path under its lock. FAILED_PRECONDITION: it is something else, or CheckOneName
// refuses it. ABORTED: another process held the lock all the time.
absl::StatusOr<LockedImage> LockImage(const std::string& path,
                                      std::chrono::milliseconds patience = std::chrono::seconds(30));

// Opens the same image once more, whatever is at its path now.
absl::StatusOr<UniqueFd> Reopen(const LockedImage& image, int flags);

inline constexpr std::string_view kUndoSuffix = ".undo";
inline constexpr std::string_view kFormattingSuffix = ".formatting";
inline constexpr std::string_view kCopyingSuffix = ".copying";

std::string UndoFileOf(const std::string& image);

// Whether a check or a growth was cut short.
absl::StatusOr<bool> HasUndoFile(const std::string& image);

// "<image>.formatting-0123abcd"
bool IsFormattingLeftover(std::string_view name, std::string_view image);

// "<image>.copying-0123abcd"
bool IsCopyingLeftover(std::string_view name, std::string_view image);

// Gives a file that root made beside an image to the owner of the image or pool, because a plugin need not run as root.
absl::Status GiveTo(const struct stat& owner, const UniqueFd& file, const std::string& path);

}  // namespace mooring
