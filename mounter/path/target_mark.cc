#include "mounter/path/target_mark.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <fstream>
#include <string>

#include "base/file/path.h"

namespace mooring {
namespace {

constexpr char kMark[] = "trusted.mooring.target";

bool LooksMadeHere(const std::string& handle, mode_t least) {
  struct stat status = {};
  if (::lstat(handle.c_str(), &status) != 0 || status.st_uid != ::geteuid()) return false;
  // A directory inherits the set-group-ID bit (mkdir(2)).
  const mode_t most = S_ISDIR(status.st_mode) ? kTargetDirectoryMode | S_ISGID : kTargetFileMode;
  // Fewer bits are fine: the umask clears some.
  return (status.st_mode & 07777U & ~most) == 0 && (status.st_mode & least) == least;
}

// In other user namespaces the kernel refuses to write the attribute, and hides an existing one.
bool InFirstUserNamespace() {
  std::ifstream file("/proc/self/uid_map");
  std::uint64_t inside = 0, outside = 0, count = 0;
  if (!(file >> inside >> outside >> count)) return true;
  return inside == 0 && outside == 0 && count == 0xFFFFFFFF;
}

}  // namespace

void MarkTarget(const UniqueFd& place) { ::fsetxattr(place.get(), kMark, "", 0, 0); }

bool IsMarkedTarget(const Target& target) {
  const std::string handle = target.Handle();
  if (::lgetxattr(handle.c_str(), kMark, nullptr, 0) >= 0) return true;
  if (errno == ENOENT) return false;
  const bool could_be_marked = errno == ENODATA && InFirstUserNamespace();
  return LooksMadeHere(handle, could_be_marked ? S_ISVTX : 0);
}

// Looks into a copy of the mount that contains the target. The copy lacks the mounts on it, so it shows what they
// cover.
bool CoversMarkedTarget(const Target& target) {
  const std::string handle = target.Handle();
  const UniqueFd alone(
      ::open_tree(AT_FDCWD, std::string(ParentOf(handle)).c_str(), OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC));
  if (!alone.ok()) return false;
  const std::string covered = fmt::format("/proc/self/fd/{}/{}", alone.get(), NameOf(handle));
  return ::lgetxattr(covered.c_str(), kMark, nullptr, 0) >= 0;
}

}  // namespace mooring
