// Paths resolved once, to an open parent directory and a last name. No component on the way may be a symbolic link, and
// the last is never followed, so that nothing swapped in later can redirect what is done here.
#ifndef MOORING_MOUNTER_PATH_TARGET_H_
#define MOORING_MOUNTER_PATH_TARGET_H_

#include <sys/stat.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/file/unique_fd.h"
#include "mounter/mounter.h"

namespace mooring {

// FAILED_PRECONDITION: `path`, normalised or "/", is below none of them.
absl::Status CheckBelowRoots(const std::string& path, const std::vector<std::string>& roots);

// Of targets that Target::Make makes, less the umask.
inline constexpr mode_t kTargetDirectoryMode = 0750, kTargetFileMode = 0640;

class Target {
 public:
  // NOT_FOUND: the parent is not there. FAILED_PRECONDITION: a symbolic link on the way, or below none of `roots`.
  static absl::StatusOr<Target> Resolve(const std::string& path, const std::vector<std::string>& roots);

  // The same where something is to be mounted: a missing parent is FAILED_PRECONDITION, it is for the caller to make.
  static absl::StatusOr<Target> ResolveForMount(const std::string& path, const std::vector<std::string>& roots);

  const std::string& path() const { return path_; }

  struct Status {
    PathInfo::Kind kind = PathInfo::Kind::kMissing;
    bool mount_root = false;
    bool unique_id = false;  // whether `mount_id` is statmount(2)'s
    std::uint64_t mount_id = 0;
    dev_t device = 0, rdev = 0;
    std::uint64_t inode = 0;
    std::uint64_t size = 0;
    int error = 0;  // of a mount whose filesystem answers nothing any more: of the rest only kind and mount are known
  };
  // Never opens what is there: an open file would keep it from being unmounted, and a hung server would keep us.
  absl::StatusOr<Status> Stat() const;
  absl::StatusOr<std::uint64_t> TableMountId() const;  // of the mount that it is on, as mountinfo numbers it

  absl::StatusOr<bool> IsEmptyDirectory() const;

  // For reading, the directory or regular file that is there, never through a link. FAILED_PRECONDITION: it is neither,
  // and was not opened.
  absl::StatusOr<UniqueFd> OpenToLock(TargetKind kind) const;

  // Makes what is missing. True: made here, to be removed again if what follows fails.
  absl::StatusOr<bool> Make(TargetKind kind) const;

  // rmdir of an empty directory, unlink of an empty regular file; missing is OK, anything else FAILED_PRECONDITION.
  absl::Status Remove() const;

  absl::Status Unmount() const;  // the topmost mount; nothing mounted is OK

  // In another mount namespace, where /proc may be another's or nobody's: from now on open files are reached by
  // `own_fds`, "/proc/self/fd" of before (O_PATH), which becomes the working directory of the process as needed.
  void UseOwnFds(UniqueFd own_fds) { own_fds_ = std::move(own_fds); }

  // `mount`, attached here a moment ago by a call that fails after all: with all that is mounted below it, and whether
  // somebody has looked into it meanwhile or not (MNT_DETACH). Never for a mount that anybody was told of. OK as well
  // where it is not mounted any more.
  absl::Status TakeBack(const UniqueFd& mount) const;
  // Whether `mount`, just attached here, is here: a directory that was moved meanwhile took it along. If not, it is
  // taken away again, and FAILED_PRECONDITION; so it is where it was unmounted meanwhile. (Whoever can move directories
  // can do so later as well, and its mounts move with it; but what is answered is true at that moment, and no mount is
  // left where nobody looks for it.)
  absl::Status CheckArrived(const UniqueFd& mount) const;

  // A path that reaches the target whatever happens above it: "/proc/self/fd/<parent>/<name>".
  std::string Handle() const;

 private:
  Target(std::string path, UniqueFd parent, std::string name)
      : path_(std::move(path)), parent_(std::move(parent)), name_(std::move(name)) {}

  absl::StatusOr<Status> StatWithoutAsking(int error) const;
  absl::StatusOr<UniqueFd> OpenRegular(const UniqueFd& found) const;
  absl::StatusOr<std::string> LinkTo(const UniqueFd& fd) const;  // a path, for calls that take no descriptor

  std::string path_;
  UniqueFd parent_;
  std::string name_;
  UniqueFd own_fds_;
};

// An existing path without a symbolic link in it, not even as the last component.
absl::StatusOr<UniqueFd> OpenNoSymlinks(const std::string& path, std::uint64_t flags);

// `directory` was just opened for reading; `path` is for messages.
absl::StatusOr<bool> IsEmptyDirectory(const UniqueFd& directory, const std::string& path);

// The mount that an open file is on, as mountinfo numbers it. Empty: /proc does not say.
std::optional<std::uint64_t> TableMountIdOf(const UniqueFd& fd);

}  // namespace mooring

#endif  // MOORING_MOUNTER_PATH_TARGET_H_
