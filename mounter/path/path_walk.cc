#include "mounter/path/path_walk.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <utility>

namespace mooring {
namespace {

UniqueFd Failure(int error) {
  errno = error;
  return UniqueFd();
}

// "" is what an O_PATH fd is itself, readlink(2).
bool IsSymlink(int directory, const std::string& name) {
  char first = 0;
  return ::readlinkat(directory, name.c_str(), &first, 1) >= 0;
}

// O_DIRECTORY refuses a link like everything else that is no directory: without asking the filesystem for its type, so
// that one that hangs is only met where it has to be gone through.
UniqueFd OpenDirectory(int directory, const std::string& name) {
  UniqueFd fd(::openat(directory, name.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd.ok() && errno == ENOTDIR) return Failure(IsSymlink(directory, name) ? ELOOP : ENOTDIR);
  return fd;
}

UniqueFd OpenLast(int directory, const std::string& name, int flags) {
  UniqueFd fd(::openat(directory, name.c_str(), flags | O_NOFOLLOW | O_CLOEXEC));
  if (!fd.ok() && errno == ENOTDIR) return Failure(IsSymlink(directory, name) ? ELOOP : ENOTDIR);
  if (!fd.ok()) return fd;
  // O_PATH with O_NOFOLLOW gives the link itself.
  if ((flags & O_PATH) != 0 && (flags & O_DIRECTORY) == 0 && IsSymlink(fd.get(), "")) return Failure(ELOOP);
  return fd;
}

std::string_view TakeComponent(std::string_view& rest) {
  const std::size_t end = std::min(rest.find('/'), rest.size());
  const std::string_view component = rest.substr(0, end);
  rest.remove_prefix(end);
  rest.remove_prefix(std::min(rest.find_first_not_of('/'), rest.size()));
  return component;
}

}  // namespace

UniqueFd WalkNoSymlinks(int directory, const std::string& path, int flags) {
  std::string_view rest = path;
  UniqueFd above;
  if (rest.starts_with('/')) {
    rest.remove_prefix(std::min(rest.find_first_not_of('/'), rest.size()));
    above.reset(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!above.ok()) return above;
    directory = above.get();
  }
  if (rest.empty()) return OpenLast(directory, path.empty() ? "" : ".", flags);
  for (;;) {
    const std::string name(TakeComponent(rest));
    if (name == "..") return Failure(EINVAL);
    if (rest.empty()) return OpenLast(directory, name, flags);
    UniqueFd next = OpenDirectory(directory, name);
    if (!next.ok()) return next;
    above = std::move(next);
    directory = above.get();
  }
}

}  // namespace mooring
