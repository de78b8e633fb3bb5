// An image file under its lock, and the files that stand beside it while a program works on it.
//
// Whoever attaches, formats, checks, grows or deletes an image holds its flock(2), and so do the programs that are run
// for it: one that outlives its plugin keeps everybody else away from what it writes.
//
//   <image>.formatting-<8 hex digits>   the filesystem that is being made; nothing worth keeping
//   <image>.copying-<8 hex digits>      the copy that is to become <image>; locked itself by whoever makes it
//   <image>.undo                        what an ext4 that e2fsck or resize2fs is changing was before, e2undo(8)
//
// While there is an undo file, the image is neither attached nor mounted.
#ifndef MOORING_MOUNTER_IMAGE_IMAGE_H_
#define MOORING_MOUNTER_IMAGE_IMAGE_H_

#include <sys/stat.h>

#include <chrono>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/file/directory.h"
#include "base/file/unique_fd.h"

namespace mooring {

struct LockedImage {
  std::string path;
  UniqueFd fd;  // for reading; the lock is its own
  struct stat status = {};
};

// OK for a regular file with one name, and for everything that is no regular file.
// FAILED_PRECONDITION: the file has hard links. A second name leads to the contents of any file that happens to lie on
// the same filesystem, so every use of an image refuses it.
absl::Status CheckOneName(const struct stat& status, const std::string& path);

// The image, or block device, under its lock and proven to be still the one at its path. FAILED_PRECONDITION: it is
// something else, or CheckOneName refuses it. ABORTED: somebody held the lock all the time.
absl::StatusOr<LockedImage> LockImage(const std::string& path,
                                      std::chrono::milliseconds patience = std::chrono::seconds(30));

// Another open file of the same image, whatever is at its path now.
absl::StatusOr<UniqueFd> Reopen(const LockedImage& image, int flags);

inline constexpr std::string_view kUndoSuffix = ".undo";
inline constexpr std::string_view kFormattingSuffix = ".formatting";
inline constexpr std::string_view kCopyingSuffix = ".copying";

std::string UndoFileOf(const std::string& image);

// Whether a check or a growth was cut short, as far as anybody can tell.
bool HasUndoFile(const std::string& image);

// "<image>.formatting-0123abcd"; without digits, as earlier versions had it.
bool IsFormattingLeftover(std::string_view name, std::string_view image);

// "<image>.copying-0123abcd"
bool IsCopyingLeftover(std::string_view name, std::string_view image);

// What root makes beside an image, or in a pool, belongs to whom that does: a plugin need not work as root.
absl::Status GiveTo(const struct stat& owner, const UniqueFd& file, const std::string& path);

}  // namespace mooring

#endif  // MOORING_MOUNTER_IMAGE_IMAGE_H_
