// Removes the contents of a directory volume, which may be hostile, or still be changed by a process. Every step starts
// at an open directory, follows no link and crosses no mount. Directories below a few levels are first moved up, so
// that depth uses up neither open files nor stack. On a btrfs subvolumes move to the top, and directories to the top of
// their subvolume, which they cannot leave.
#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/file/path.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/kernel/kernel_mounter.h"
#include "mounter/path/target.h"
#include "mounter/quota/project_quota.h"
#include "mounter/quota/sized_directory.h"
#include "mounter/subvolume/inner_subvolumes.h"
#include "mounter/table/mount_table.h"

namespace mooring {
namespace {

constexpr int kDeepest = 32;
constexpr int kFruitless = 100;         // rounds without success before it gives up
constexpr std::size_t kAtATime = 4096;  // names per round: a directory may have millions

absl::StatusOr<std::vector<std::string>> SomeNames(const UniqueFd& directory, const std::string& path) {
  UniqueFd copy(::openat(directory.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const std::unique_ptr<DIR, int (*)(DIR*)> open(copy.ok() ? ::fdopendir(copy.get()) : nullptr, ::closedir);
  if (open == nullptr) return ErrnoStatus(errno, "read a directory of", path);
  copy.release();
  std::vector<std::string> names;
  errno = 0;
  for (const dirent* entry = ::readdir(open.get()); entry != nullptr && names.size() < kAtATime;
       entry = ::readdir(open.get())) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  if (errno != 0) return ErrnoStatus(errno, "read a directory of", path);
  return names;
}

// The kernel refuses to move a directory of another project to one that gives its project to new entries. Stops that.
// Returns whether it did so (mounter/quota).
absl::StatusOr<bool> StopsGivingItsProject(const UniqueFd& directory, const std::string& path) {
  MOORING_ASSIGN_OR_RETURN(const std::optional<ProjectMark> mark, MarkOf(directory, path));
  if (!mark || !mark->inherits) return false;
  MOORING_RETURN_IF_ERROR(SetMark(directory, {.project = mark->project, .inherits = false}, path));
  return true;
}

class Remover {
 public:
  Remover(UniqueFd top, std::string path) : top_(std::move(top)), path_(std::move(path)) {}

  absl::Status Empty() { return Empty(top_, top_, 0); }
  const UniqueFd& top() const { return top_; }

 private:
  // Repeats while it makes progress, because a process may still be writing. Some filesystems never report why a
  // directory cannot be removed.
  absl::Status Empty(const UniqueFd& base, const UniqueFd& directory, int depth) {
    for (int fruitless = 0;;) {
      MOORING_ASSIGN_OR_RETURN(const std::vector<std::string> names, SomeNames(directory, path_));
      if (names.empty()) return absl::OkStatus();
      const std::uint64_t before = removed_;
      for (const std::string& name : names) MOORING_RETURN_IF_ERROR(Remove(base, directory, name, depth));
      fruitless = removed_ == before ? fruitless + 1 : 0;
      if (fruitless >= kFruitless) return Failed(ENOTEMPTY, names.front());
    }
  }

  absl::Status Remove(const UniqueFd& base, const UniqueFd& directory, const std::string& name, int depth) {
    if (Unlink(directory, name, 0) || errno == ENOENT) return absl::OkStatus();
    const int error = errno;
    if (error != EISDIR && error != EPERM) return Failed(error, name);
    if (Unlink(directory, name, AT_REMOVEDIR) || errno == ENOENT) return absl::OkStatus();
    // Not a directory: the first error counts. If it was one a moment ago, the next round sees what it is now.
    if (errno == ENOTDIR) return error == EISDIR ? absl::OkStatus() : Failed(error, name);
    if (errno != ENOTEMPTY && errno != EEXIST) return Failed(errno, name);
    const UniqueFd below = OpenDirectoryBelow(directory, name);
    const bool swapped = !below.ok() && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP);
    if (!below.ok()) return swapped ? absl::OkStatus() : Failed(errno, name);
    const bool is_subvolume = IsSubvolume(below), is_in_top = &directory == &top_;
    if (is_subvolume) MOORING_RETURN_IF_ERROR(MakeWritable(below, path_));
    if (is_subvolume && !is_in_top) return MoveUp(directory, name, top_);
    if (depth >= kDeepest) return MoveUp(directory, name, base);
    MOORING_RETURN_IF_ERROR(Empty(is_subvolume ? below : base, below, depth + 1));
    // The next round meets new entries.
    if (Unlink(directory, name, AT_REMOVEDIR)) return absl::OkStatus();
    const bool retry = errno == ENOENT || errno == ENOTEMPTY || errno == EEXIST || errno == ENOTDIR;
    return retry ? absl::OkStatus() : Failed(errno, name);
  }

  bool Unlink(const UniqueFd& directory, const std::string& name, int flags) {
    if (::unlinkat(directory.get(), name.c_str(), flags) != 0) return false;
    ++removed_;
    return true;
  }

  absl::Status MoveUp(const UniqueFd& directory, const std::string& name, const UniqueFd& to) {
    for (int refused = 0;;) {
      const std::string above = fmt::format("deep-{}", moved_++);
      const unsigned flags = RENAME_NOREPLACE;
      if (::renameat2(directory.get(), name.c_str(), to.get(), above.c_str(), flags) == 0) {
        ++removed_;
        return absl::OkStatus();
      }
      const int error = errno;
      if (error == EXDEV && ++refused < kFruitless) {  // a task may set the mark of the directory again
        MOORING_ASSIGN_OR_RETURN(const bool stops, StopsGivingItsProject(to, path_));
        if (stops) continue;
      }
      if (error != EEXIST) return error == ENOENT ? absl::OkStatus() : Failed(error, name);
    }
  }

  absl::Status Failed(int error, const std::string& name) const {
    if (error == EBUSY && name.starts_with(".nfs")) {  // nfs(5): the file was deleted, and is open
      return FailedPrecondition(
          "a process of this host still has a file of {} open: end it (fuser -vm), and call again", Quote(path_));
    }
    if (error == EBUSY || error == EXDEV) {
      return FailedPrecondition("something is mounted at a directory {} below {}: unmount it first", Quote(name),
                                Quote(path_));
    }
    return ErrnoStatus(error, fmt::format("remove {} below", Quote(name)), path_);
  }

  const UniqueFd top_;
  const std::string path_;
  std::uint64_t moved_ = 0;
  std::uint64_t removed_ = 0;  // entries removed or moved: the progress of a round
};

}  // namespace

absl::Status KernelMounter::RemoveTree(const std::string& directory) {
  const absl::StatusOr<UniqueFd> parent = OpenNoSymlinks(std::string(ParentOf(directory)), O_PATH | O_DIRECTORY);
  if (absl::IsNotFound(parent.status())) return absl::OkStatus();
  if (!parent.ok()) return parent.status();
  MOORING_RETURN_IF_ERROR(CheckNothingMountedBelow(directory));
  absl::StatusOr<UniqueFd> top = OpenVolumeIn(*parent, directory);
  if (absl::IsNotFound(top.status())) return absl::OkStatus();
  if (!top.ok()) return top.status();
  Remover remover(*std::move(top), directory);
  MOORING_RETURN_IF_ERROR(remover.Empty());
  MOORING_RETURN_IF_ERROR(DropDirectoryLimit(remover.top(), directory));
  const std::string name(NameOf(directory));
  if (::unlinkat(parent->get(), name.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT) return absl::OkStatus();
  return ErrnoStatus(errno, "remove the directory", directory);
}

absl::Status KernelMounter::LimitDirectory(const std::string& directory, std::uint64_t bytes) {
  return SetDirectoryLimit(directory, bytes);
}

}  // namespace mooring
