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

#include "base/file/path.h"
#include "base/status.h"

namespace mooring {
namespace {

constexpr int kMostLinks = 40;  // the limit of the kernel, path_resolution(7)

bool IsRootsAlone(const struct stat& status) {
  return status.st_uid == 0 && (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

// Follows a path as the kernel does, and records the symbolic links on the way.
class Walk {
 public:
  absl::StatusOr<RealDirectory> To(const std::string& path, int flags) {
    Put(path);
    int error = Begin(path);
    while (error == 0 && !left_.empty()) error = Step();
    RealDirectory found;
    if (error == 0) error = Open(found, flags);
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

  // Puts the components of `path` before those that are left.
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

  int Open(RealDirectory& found, int flags) {
    found.fd.reset(::openat(at_.get(), ".", flags | O_DIRECTORY | O_CLOEXEC));
    if (!found.fd.ok()) return errno;
    std::array<char, PATH_MAX> place = {};
    const ssize_t size = ::readlink(fmt::format("/proc/self/fd/{}", at_.get()).c_str(), place.data(), place.size());
    if (size < 0) return errno;
    found.path.assign(place.data(), static_cast<std::size_t>(size));
    return 0;
  }

  std::deque<std::string> left_;
  UniqueFd at_;
  bool is_roots_ = true;  // so far, only root can rename anything on the way
  std::string doubtful_link_;
  int links_ = 0;
};

}  // namespace

absl::StatusOr<RealDirectory> OpenRealDirectory(const std::string& path) { return Walk().To(path, O_RDONLY); }

absl::Status MakeRealDirectory(const std::string& path) {
  const std::string name(NameOf(path));
  MOORING_ASSIGN_OR_RETURN(const RealDirectory above, Walk().To(std::string(ParentOf(path)), O_PATH));
  if (::mkdirat(above.fd.get(), name.c_str(), 0700) == 0 || errno == EEXIST) return absl::OkStatus();
  return ErrnoStatus(errno, "make the directory", path);
}

}  // namespace mooring
