#include "mounter/quota/sized_directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/file/path.h"
#include "base/log.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/path/target.h"
#include "mounter/quota/project_quota.h"
#include "mounter/subvolumes.h"

namespace mooring {
namespace {

constexpr std::uint64_t kBytesForInode = 16384;  // as mkfs.ext4 has it
constexpr std::uint64_t kLeastInodes = 1024;

absl::Status CheckUnused(const ProjectUsage& usage, std::uint32_t project, const std::string& path) {
  if (usage.most_bytes == 0 && usage.most_inodes == 0 && usage.bytes == 0 && usage.inodes == 0) return absl::OkStatus();
  return Aborted("the project id {} of {} is in use by something else on this filesystem: call again for another one",
                 project, Quote(path));
}

// Gives all files of a volume its project. They lack it after the volume was restored from a backup. A directory gets
// it before its entries, so that what a task makes there meanwhile has it, too. Files are opened by what they are,
// because opening a device has effects.
class Marker {
 public:
  Marker(const UniqueFd& top, std::uint32_t project, const std::string& path)
      : top_(top), project_(project), path_(path) {}

  // Files that cannot be marked are not counted for the volume.
  void MarkAllBelow() {
    failed_ = absl::OkStatus();
    for (waiting_ = {"."}; !waiting_.empty();) {
      const std::string place = std::exchange(waiting_.back(), "");
      waiting_.pop_back();
      failed_.Update(MarkEntriesOf(place));
    }
    log::WarningIfFailed(failed_, "some files of a volume are not counted for its size", {{"directory", path_}});
  }

 private:
  absl::Status MarkEntriesOf(const std::string& place) {
    UniqueFd directory = OpenDirectoryBelow(top_, place);
    if (!directory.ok()) {
      return errno == ENOENT ? absl::OkStatus() : ErrnoStatus(errno, fmt::format("open {} below", Quote(place)), path_);
    }
    const std::unique_ptr<DIR, int (*)(DIR*)> open(::fdopendir(directory.get()), ::closedir);
    if (open == nullptr) return ErrnoStatus(errno, fmt::format("read {} below", Quote(place)), path_);
    const int number = directory.release();
    for (errno = 0; const dirent* const entry = ::readdir(open.get()); errno = 0) {
      const std::string name = entry->d_name;
      if (name == "." || name == "..") continue;
      const absl::StatusOr<bool> is_directory = MarkEntry(number, name);
      failed_.Update(is_directory.status());
      if (is_directory.value_or(false)) waiting_.push_back(place + "/" + name);
    }
    return errno == 0 ? absl::OkStatus() : ErrnoStatus(errno, fmt::format("read {} below", Quote(place)), path_);
  }

  // Whether it is a directory of this filesystem.
  absl::StatusOr<bool> MarkEntry(int directory, const std::string& name) {
    const UniqueFd place(::openat(directory, name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    struct stat status = {}, top = {};
    if (!place.ok() || ::fstat(place.get(), &status) != 0 || ::fstat(top_.get(), &top) != 0) {
      if (errno == ENOENT) return false;
      return ErrnoStatus(errno, fmt::format("look at {} in", Quote(name)), path_);
    }
    const bool is_directory = S_ISDIR(status.st_mode);
    if ((!is_directory && !S_ISREG(status.st_mode)) || status.st_dev != top.st_dev) return false;
    MOORING_ASSIGN_OR_RETURN(const std::string path, ProcFdPath(place));
    const UniqueFd file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    if (!file.ok()) return ErrnoStatus(errno, fmt::format("open {} in", Quote(name)), path_);
    const ProjectMark wanted = {.project = project_, .inherits = is_directory};
    MOORING_ASSIGN_OR_RETURN(const std::optional<ProjectMark> mark, MarkOf(file, path_));
    if (mark == wanted) return is_directory;
    MOORING_RETURN_IF_ERROR(SetMark(file, wanted, path_));
    return is_directory;
  }

  const UniqueFd& top_;
  const std::uint32_t project_;
  const std::string path_;
  std::vector<std::string> waiting_ = {};  // directories, from the top
  absl::Status failed_;                    // the first failure
};

// Until the first walk has ended, the top does not give its project to new entries, so that the next start repeats an
// interrupted walk. The second walk finds what was made or moved meanwhile. If it is interrupted, the rest is not
// counted.
absl::Status MarkAll(const UniqueFd& top, std::uint32_t project, const std::string& path) {
  Marker marker(top, project, path);
  MOORING_RETURN_IF_ERROR(SetMark(top, {.project = project, .inherits = false}, path));
  marker.MarkAllBelow();
  MOORING_RETURN_IF_ERROR(SetMark(top, {.project = project, .inherits = true}, path));
  marker.MarkAllBelow();
  return absl::OkStatus();
}

}  // namespace

std::uint64_t InodesFor(std::uint64_t bytes) { return std::max(bytes / kBytesForInode, kLeastInodes); }

absl::Status SetDirectoryLimit(const std::string& path, std::uint64_t bytes) {
  const std::uint32_t project = ProjectOf(NameOf(path));
  if (project == 0) return InvalidArgument("{} is no name of a volume: it has no 12 hexadecimal digits", Quote(path));
  if (bytes == 0) return InvalidArgument("a limit of 0 bytes for {}", Quote(path));
  const std::string above(ParentOf(path));
  MOORING_ASSIGN_OR_RETURN(const UniqueFd pool, OpenNoSymlinks(above, O_RDONLY | O_DIRECTORY));
  MOORING_ASSIGN_OR_RETURN(const UniqueFd directory, OpenVolumeIn(pool, path));
  MOORING_RETURN_IF_ERROR(CheckEnforcesProjects(directory, path));
  const ProjectMark wanted = {.project = project, .inherits = true};
  MOORING_ASSIGN_OR_RETURN(const std::optional<ProjectMark> mark, MarkOf(directory, path));
  const bool is_new = path.ends_with(kMakingEnd);
  MOORING_ASSIGN_OR_RETURN(const auto found, UsageOfProject(directory, project, path));
  const ProjectUsage usage = found.value_or(ProjectUsage());
  if (is_new) MOORING_RETURN_IF_ERROR(CheckUnused(usage, project, path));
  if (is_new) {
    MOORING_RETURN_IF_ERROR(CheckGivesNoProject(pool, above));
    MOORING_RETURN_IF_ERROR(SetMark(directory, wanted, path));
  } else if (mark != wanted || usage.most_bytes == 0) {
    MOORING_RETURN_IF_ERROR(MarkAll(directory, project, path));
  }
  const std::uint64_t most = std::max(bytes, usage.most_bytes);
  return LimitProject(directory, project, most, std::max(InodesFor(most), usage.most_inodes), path);
}

// A directory that has lost its mark may still have a limit. If something else is counted for the project, it is
// another one's.
absl::Status DropDirectoryLimit(const UniqueFd& directory, const std::string& path) {
  const std::uint32_t project = ProjectOf(NameOf(path));
  if (project == 0) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(const std::optional<ProjectUsage> usage, UsageOfProject(directory, project, path));
  if (!usage || (usage->most_bytes == 0 && usage->most_inodes == 0)) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(const std::optional<ProjectMark> mark, MarkOf(directory, path));
  const bool is_ours = mark && mark->project == project;
  if (!is_ours && usage->inodes != 0) return absl::OkStatus();
  return LimitProject(directory, project, 0, 0, path);
}

}  // namespace mooring
