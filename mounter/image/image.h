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
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file/directory.h"
#include "base/file/unique_fd.h"
#include "mounter/path/source_policy.h"

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

// A file that is filled under a working name, and then takes its own name in one step, never over another file. The
// working name is <path>.copying-<8 hex digits>. The lock of the file tells a clean-up that it is in use. The
// object removes the file unless it was kept. Everything happens in the directory that was opened and checked at first,
// whatever is put at its path later.
class NewFile {
 public:
  // ALREADY_EXISTS: something is at `path`. NOT_FOUND: no directory.
  static absl::StatusOr<std::unique_ptr<NewFile>> Make(const std::string& path, const SourcePolicy& policy);
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  ~NewFile();

  const UniqueFd& fd() const { return fd_; }
  const std::string& path() const { return path_; }             // after Publish
  std::string working_path() const { return path_ + suffix_; }  // until Publish

  absl::Status Publish();  // renames the file to path(); ALREADY_EXISTS: another file is there
  absl::Status SyncDirectory() const;
  void Keep() { name_.clear(); }

 private:
  NewFile(std::string path, UniqueFd directory);
  absl::Status CheckNameFree() const;

  const std::string path_;
  const std::string suffix_;
  const UniqueFd directory_;
  UniqueFd fd_;
  std::string name_;  // the present name in the directory; empty: the destructor leaves it
};

}  // namespace mooring
