#include "mounter/target_mark.h"

#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <string>

namespace mooring {
namespace {

constexpr char kMark[] = "trusted.mooring.target";

bool LooksMadeHere(const std::string& handle) {
  struct stat status = {};
  if (::lstat(handle.c_str(), &status) != 0 || status.st_uid != ::geteuid()) return false;
  const mode_t most = S_ISDIR(status.st_mode) ? kTargetDirectoryMode : kTargetFileMode;
  return (status.st_mode & 07777U & ~most) == 0;  // the umask may have taken some away
}

}  // namespace

void MarkTarget(const UniqueFd& place) { ::fsetxattr(place.get(), kMark, "", 0, 0); }

bool IsMarkedTarget(const Target& target) {
  const std::string handle = target.Handle();
  if (::lgetxattr(handle.c_str(), kMark, nullptr, 0) >= 0) return true;
  // ENODATA is also what a process without CAP_SYS_ADMIN is told.
  return errno != ENODATA && errno != ENOENT && LooksMadeHere(handle);
}

}  // namespace mooring
