#include "plugin/process/shared_filesystem.h"

#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#include <cerrno>
#include <fstream>
#include <iterator>
#include <sstream>

#include "base/status.h"
#include "base/text/quote.h"

namespace mooring {
namespace {

// Options of NFS, and of GFS2 and OCFS2, with which fcntl(2) asks no other host. With `local_lock=flock` it does.
bool KeepsLocksHere(const std::string& option) {
  return option == "nolock" || option == "local_lock=all" || option == "local_lock=posix" || option == "localflocks";
}

// The first such option of a line of mountinfo, which are in its last field. Empty: there is none.
std::string LocalLockOption(const std::string& line) {
  std::istringstream options(line.substr(line.rfind(' ') + 1));
  for (std::string option; std::getline(options, option, ',');) {
    if (KeepsLocksHere(option)) return option;
  }
  return "";
}

bool IsMountOf(const std::string& line, const std::string& device) {
  std::istringstream fields(line);
  std::string id, parent, number;
  fields >> id >> parent >> number;
  return number == device;
}

}  // namespace

absl::Status CheckLocksReachOthers(const std::string& mount_info, dev_t device, const std::string& directory) {
  const std::string number = fmt::format("{}:{}", major(device), minor(device));
  std::istringstream lines(mount_info);
  for (std::string line; std::getline(lines, line);) {
    const std::string option = IsMountOf(line, number) ? LocalLockOption(line) : "";
    if (option.empty()) continue;
    return FailedPrecondition(
        "{} is mounted with the option {}, so its locks do not reach other hosts: mount it without that, NFS with "
        "vers=4.2, or leave shared=true out",
        Quote(directory), option);
  }
  return absl::OkStatus();
}

// mounter/loop/attachment_lock.h: images on FUSE are not locked.
absl::Status CheckSharedFilesystem(const std::string& directory) {
  struct statfs filesystem = {};
  struct stat status = {};
  if (::statfs(directory.c_str(), &filesystem) != 0 || ::stat(directory.c_str(), &status) != 0) {
    return ErrnoStatus(errno, "look at the filesystem of", directory);
  }
  if (filesystem.f_type == FUSE_SUPER_MAGIC) {
    return FailedPrecondition(
        "{} lies on a FUSE filesystem, where the lock of an image would outlive its user: share a pool on NFSv4, "
        "CephFS or GFS2, or leave shared=true out",
        Quote(directory));
  }
  constexpr char kMountInfo[] = "/proc/self/mountinfo";
  std::ifstream file(kMountInfo);
  if (!file) return ErrnoStatus(errno, "read", kMountInfo);
  const std::string mount_info{std::istreambuf_iterator<char>(file), {}};
  return CheckLocksReachOthers(mount_info, status.st_dev, directory);
}

}  // namespace mooring
