// Resolves a path once, to an open directory and a last name. No component on the way may be a symbolic link,
// and the last one is never followed. So nobody can redirect an operation by exchanging a component later.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/file/unique_fd.h"
#include "mounter/mounter.h"

namespace mooring {

// FAILED_PRECONDITION: `path`, which is normalised or "/", lies below none of `roots`.
absl::Status CheckBelowRoots(const std::string& path, const std::vector<std::string>& roots);

// The modes of targets that Target::Make creates, before the umask. The sticky bit grants nothing. It tells who made
// the target, from its first moment on: see MarkTarget.
inline constexpr mode_t kTargetDirectoryMode = 01750, kTargetFileMode = 01640;

// Gives a path to an open file, for system calls that take no descriptor. The path is valid until the next call.
using FdPath = std::function<absl::StatusOr<std::string>(const UniqueFd& fd)>;

absl::StatusOr<std::string> ProcFdPath(const UniqueFd& fd);  // "/proc/self/fd/N"

class Target {
 public:
  // NOT_FOUND: the parent does not exist. FAILED_PRECONDITION: a symbolic link on the way, or below none of `roots`.
  static absl::StatusOr<Target> Resolve(const std::string& path, const std::vector<std::string>& roots,
                                        FdPath fd_path = ProcFdPath);

  // The same for a mount or a change. A missing parent is FAILED_PRECONDITION, because the caller has to create it.
  static absl::StatusOr<Target> ResolveForMount(const std::string& path, const std::vector<std::string>& roots,
                                                FdPath fd_path = ProcFdPath);

  // The directory itself, opened: Stat and Handle are about this one, whatever is mounted or moved there later.
  // FAILED_PRECONDITION: it is no directory, or a component is a symbolic link.
  static absl::StatusOr<Target> OfDirectory(const std::string& path);

  const std::string& path() const { return path_; }
  // Every call looks up name() in directory(), which was opened with O_PATH. The name of OfDirectory is ".".
  const UniqueFd& directory() const { return directory_; }
  const std::string& name() const { return name_; }

  struct Status {
    PathInfo::Kind kind = PathInfo::Kind::kMissing;
    bool mount_root = false;
    bool unique_id = false;  // `mount_id` is statmount(2)'s unique id
    std::uint64_t mount_id = 0;
    dev_t device = 0, rdev = 0;
    std::uint64_t inode = 0;
    std::uint64_t size = 0;
    int error =
        0;  // errno of a mounted filesystem that does not answer; then only kind, mount_root and mount_id are set
  };
  // Does not open the target: an open file would prevent an unmount, and a hung server would block the caller.
  absl::StatusOr<Status> Stat() const;
  absl::StatusOr<std::uint64_t> TableMountId() const;  // the id in mountinfo of the mount at the target

  absl::StatusOr<bool> IsEmptyDirectory() const;  // NOT_FOUND: it is missing, or is being removed

  // Opens the directory or regular file for reading, never through a link. FAILED_PRECONDITION: it is something else,
  // and was not opened.
  absl::StatusOr<UniqueFd> OpenToLock(TargetKind kind) const;

  // Creates the target if it is missing. True: created by this call, so the caller removes it if a later step fails.
  absl::StatusOr<bool> Make(TargetKind kind) const;

  // Removes an empty directory or an empty regular file. OK: the target is missing. FAILED_PRECONDITION: anything else.
  absl::Status Remove() const;
  absl::Status CheckRemovable() const;  // the same answer, without removing anything

  absl::Status Unmount() const;  // the topmost mount; OK if nothing is mounted

  // Unmounts `mount`, which this process attached here a moment ago for a call that fails after all. Includes the
  // mounts below it, and works while the mount is in use (MNT_DETACH). Only for a mount that was reported to nobody. OK
  // if it is not mounted any more.
  absl::Status UndoAttach(const UniqueFd& mount) const;

  // Checks that `mount`, just attached here, is still here: a directory that was moved meanwhile took its mounts along.
  // FAILED_PRECONDITION: it is elsewhere, and was unmounted; or somebody else unmounted it. Directories may also be
  // moved later. But the answer is true at this moment, and no mount stays at an unknown place.
  absl::Status CheckArrived(const UniqueFd& mount) const;

  // A path to the target that stays valid if directories above it are moved: "/proc/self/fd/<directory>/<name>".
  std::string Handle() const;

 private:
  Target(std::string path, UniqueFd directory, std::string name, FdPath fd_path)
      : path_(std::move(path)),
        directory_(std::move(directory)),
        name_(std::move(name)),
        fd_path_(std::move(fd_path)) {}

  absl::StatusOr<Status> StatBroken(int error) const;
  absl::StatusOr<UniqueFd> OpenRegular(const UniqueFd& found) const;

  std::string path_;
  UniqueFd directory_;
  std::string name_;
  FdPath fd_path_;
};

// Opens an existing path. FAILED_PRECONDITION: a component is a symbolic link, even if it is the last one.
absl::StatusOr<UniqueFd> OpenNoSymlinks(const std::string& path, std::uint64_t flags);

// Opens a directory below an open one for reading, and follows neither a link nor a mount. Sets errno on failure:
// EXDEV: something is mounted there.
UniqueFd OpenDirectoryBelow(const UniqueFd& directory, const std::string& path);

// The same for the directory of a volume at `path`, in its pool. NOT_FOUND: there is none. FAILED_PRECONDITION:
// something is mounted there.
absl::StatusOr<UniqueFd> OpenVolumeIn(const UniqueFd& pool, const std::string& path);

// `directory` has just been opened for reading. `path` is for messages. NOT_FOUND: rmdir(2) is removing the directory.
// For a moment its path still leads to it.
absl::StatusOr<bool> IsEmptyDirectory(const UniqueFd& directory, const std::string& path);

// The id in mountinfo of the mount that an open file is on. Empty: /proc does not say.
std::optional<std::uint64_t> TableMountIdOf(const UniqueFd& fd);

// Marks the directories and files that were targets of a mount, with an extended attribute, trusted.mooring.target.
// Only CAP_SYS_ADMIN can read or write it. After a reboot the mounts are gone and the targets remain. The mark tells
// the mount helper that it may remove an empty one, whatever the plugin claims. An empty one of root that is not marked
// may be removed, too, if it has the mode of Target::Make: IsMarkedTarget.

// Called just before a mount on `place`. A filesystem without extended attributes is not an error.
void MarkTarget(const UniqueFd& place);

// Whether `target`, on which nothing is mounted, is marked. The helper may have been killed between Target::Make and
// the mark. Then the sticky bit of Target::Make is there. The filesystem may have no such attributes, or this process
// may not read them. Then the owner and the mode are compared with those of Target::Make.
bool IsMarkedTarget(const Target& target);

// Whether the directory or file below the lowest mount on `target` is marked. False if the kernel does not say: without
// open_tree(2), below an unbindable mount, or on a filesystem without such attributes.
bool CoversMarkedTarget(const Target& target);

}  // namespace mooring
