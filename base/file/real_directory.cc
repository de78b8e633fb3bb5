#include "base/file/real_directory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <deque>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file/directory.h"
#include "base/file/path.h"
#include "base/status.h"
#include "base/text/quote.h"

namespace mooring {
namespace {

constexpr int kMostLinks = 40;  // the kernel's limit: path_resolution(7)

bool IsRootsAlone(const struct stat& status) {
  return status.st_uid == 0 && (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

// Follows a path as the kernel does, and notes the symbolic links on the way.
class Walk {
 public:
  absl::StatusOr<RealDirectory> To(const std::string& path) {
    Put(path);
    int error = Begin(path);
    while (error == 0 && !left_.empty()) error = Step();
    RealDirectory found;
    if (error == 0) error = Open(found);
    if (error != 0) return ErrnoStatus(error, "open the directory", path);
    found.doubtful_link = doubtful_link_;
    return found;
  }

 private:
  int Begin(std::string_view path) {
    if (!path.starts_with('/') && at_.ok()) return 0;
    at_.reset(::open(path.starts_with('/') ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC));
    is_roots_ = path.starts_with('/');
    return at_.ok() ? 0 : errno;
  }

  // Puts the components of `path` in front of those that are left.
  void Put(const std::string& path) {
    std::deque<std::string> names;
    std::istringstream text(path);
    for (std::string name; std::getline(text, name, '/');) {
      if (!name.empty()) names.push_back(name);
    }
    left_.insert(left_.begin(), names.begin(), names.end());
  }

  int Step() {
    const std::string name = left_.front();
    left_.pop_front();
    struct stat above = {}, status = {};
    if (::fstat(at_.get(), &above) != 0) return errno;
    is_roots_ = is_roots_ && IsRootsAlone(above);
    UniqueFd next(::openat(at_.get(), name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    if (!next.ok() || ::fstat(next.get(), &status) != 0) return errno;
    if (S_ISLNK(status.st_mode)) return Follow(next, name);
    if (!S_ISDIR(status.st_mode)) return ENOTDIR;
    at_ = std::move(next);
    return 0;
  }

  int Follow(const UniqueFd& link, const std::string& name) {
    std::array<char, PATH_MAX> target = {};
    const ssize_t size = ::readlinkat(link.get(), "", target.data(), target.size());
    if (size < 0) return errno;
    if (++links_ > kMostLinks) return ELOOP;
    if (!is_roots_ && doubtful_link_.empty()) doubtful_link_ = name;
    const std::string path(target.data(), static_cast<std::size_t>(size));
    Put(path);
    return Begin(path);
  }

  int Open(RealDirectory& found) {
    std::array<char, PATH_MAX> place = {};
    const ssize_t size = ::readlink(fmt::format("/proc/self/fd/{}", at_.get()).c_str(), place.data(), place.size());
    if (size < 0) return errno;
    found.path.assign(place.data(), static_cast<std::size_t>(size));
    found.fd = std::move(at_);
    return 0;
  }

  std::deque<std::string> left_;
  UniqueFd at_;
  bool is_roots_ = true;  // only root may write in the directories passed so far
  std::string doubtful_link_;
  int links_ = 0;
};

// The entry may be another directory by now, if another user may write in `above`: only an empty one is given away.
absl::Status GiveNewDirectory(const RealDirectory& above, const std::string& name, uid_t uid, gid_t gid) {
  const std::string path = above.path + "/" + name;
  const UniqueFd made(::openat(above.fd.get(), name.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!made.ok()) return ErrnoStatus(errno, "open the new directory", path);
  MOORING_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                           EntriesOf(fmt::format("/proc/self/fd/{}", made.get())));
  if (!names.empty()) return FailedPrecondition("the new directory {} is not empty", Quote(path));
  if (::fchownat(made.get(), "", uid, gid, AT_EMPTY_PATH) == 0) return absl::OkStatus();
  return ErrnoStatus(errno, fmt::format("give the new directory to user {}:{}:", uid, gid), path);
}

}  // namespace

absl::StatusOr<RealDirectory> OpenRealDirectory(const std::string& path) { return Walk().To(path); }

absl::Status MakeRealDirectory(const std::string& path, uid_t uid, gid_t gid) {
  const std::string name(NameOf(path));
  MOORING_ASSIGN_OR_RETURN(const RealDirectory above, Walk().To(std::string(ParentOf(path))));
  const bool for_another = uid != ::geteuid();
  if (for_another) MOORING_RETURN_IF_ERROR(CheckNoDoubtfulLink(above));
  if (::mkdirat(above.fd.get(), name.c_str(), 0700) != 0) {
    return errno == EEXIST ? absl::OkStatus() : ErrnoStatus(errno, "make the directory", path);
  }
  if (!for_another) return absl::OkStatus();
  const absl::Status given = GiveNewDirectory(above, name, uid, gid);
  if (!given.ok()) ::unlinkat(above.fd.get(), name.c_str(), AT_REMOVEDIR);
  return given;
}

absl::Status CheckNoDoubtfulLink(const RealDirectory& directory) {
  if (directory.doubtful_link.empty()) return absl::OkStatus();
  return FailedPrecondition(
      "the way to {} leads through the symbolic link {}, in a directory where others than root may write: give the "
      "path without it",
      Quote(directory.path), Quote(directory.doubtful_link));
}

}  // namespace mooring
