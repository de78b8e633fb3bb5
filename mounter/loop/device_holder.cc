#include "mounter/loop/device_holder.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/file/directory.h"
#include "base/file/unique_fd.h"
#include "base/status.h"
#include "base/text/whole_number.h"
#include "mounter/process/side_process.h"

namespace mooring {
namespace {

// The errors of files in /proc whose process has ended, or belongs to somebody else: any process can take the name of a
// holder. A holder has the privileges of this process at most, so it can always be looked at.
bool MeansNoHolder(int error) { return error == ENOENT || error == ESRCH || error == EACCES || error == EPERM; }

absl::StatusOr<bool> IsHolder(const std::string& process) {
  const std::string path = "/proc/" + process + "/comm";
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, 32> name = {};
  const ssize_t size = fd.ok() ? ::read(fd.get(), name.data(), name.size()) : -1;
  if (size < 0 && MeansNoHolder(errno)) return false;
  if (size < 0) return ErrnoStatus(errno, "read", path);
  return std::string_view(name.data(), static_cast<std::size_t>(size)) == std::string(kHolderName) + "\n";
}

// Whether the file in `directory`, a /proc/PID/fd, is the device. Any process can take the name of a holder. Its file
// may lie below a /dev of its own, on a server that is silent: nobody waits for that.
absl::StatusOr<bool> LeadsTo(int directory, const std::string& name, dev_t device) {
  std::array<char, 8> leads_to = {};
  const ssize_t size = ::readlinkat(directory, name.c_str(), leads_to.data(), leads_to.size());
  if (size < 0) return MeansNoHolder(errno) ? absl::StatusOr<bool>(false) : ErrnoStatus(errno, "look at", name);
  if (!std::string_view(leads_to.data(), static_cast<std::size_t>(size)).starts_with("/dev/")) return false;
  struct statx found = {};
  if (::statx(directory, name.c_str(), AT_STATX_DONT_SYNC, STATX_TYPE, &found) != 0) {
    return MeansNoHolder(errno) ? absl::StatusOr<bool>(false) : ErrnoStatus(errno, "look at", name);
  }
  return S_ISBLK(found.stx_mode) && makedev(found.stx_rdev_major, found.stx_rdev_minor) == device;
}

// The process may end at any step. Each step then fails with an error that MeansNoHolder knows, so the directory is
// read here and not by EntriesOf, whose Status has no errno.
absl::StatusOr<bool> HasOpen(const std::string& process, dev_t device) {
  const std::string path = "/proc/" + process + "/fd";
  const std::unique_ptr<DIR, int (*)(DIR*)> open(::opendir(path.c_str()), ::closedir);
  if (open == nullptr) return MeansNoHolder(errno) ? absl::StatusOr<bool>(false) : ErrnoStatus(errno, "open", path);
  for (errno = 0; const dirent* const entry = ::readdir(open.get()); errno = 0) {
    if (entry->d_name[0] == '.') continue;
    MOORING_ASSIGN_OR_RETURN(const bool is_device, LeadsTo(::dirfd(open.get()), entry->d_name, device));
    if (is_device) return true;
  }
  return errno == 0 || MeansNoHolder(errno) ? absl::StatusOr<bool>(false) : ErrnoStatus(errno, "list", path);
}

absl::StatusOr<bool> Holds(pid_t pid, dev_t device) {
  const std::string process = std::to_string(pid);
  MOORING_ASSIGN_OR_RETURN(const bool is_holder, IsHolder(process));
  return is_holder ? HasOpen(process, device) : absl::StatusOr<bool>(false);
}

// A holder in another container ends with that container, and any process can take the name.
bool IsInOurMountNamespace(pid_t pid) {
  struct stat own = {}, its = {};
  return ::stat("/proc/self/ns/mnt", &own) == 0 && ::stat(fmt::format("/proc/{}/ns/mnt", pid).c_str(), &its) == 0 &&
         own.st_dev == its.st_dev && own.st_ino == its.st_ino;
}

int HoldForEver() {
  for (;;) ::poll(nullptr, 0, -1);
}

}  // namespace

absl::StatusOr<std::vector<pid_t>> HoldersOf(dev_t device) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<std::string> names, EntriesOf("/proc"));
  std::vector<pid_t> holders;
  for (const std::string& name : names) {
    const auto pid = ParseWhole<pid_t>(name);
    if (!pid) continue;
    MOORING_ASSIGN_OR_RETURN(const bool holds, Holds(*pid, device));
    if (holds) holders.push_back(*pid);
  }
  return holders;
}

absl::Status StartHolder(int fd) {
  const SideProcessSpec spec = {.name = std::string(kHolderName), .kept = {fd}, .ends_on_sigterm = true};
  return StartSideProcess(spec, HoldForEver).status();
}

absl::Status HoldDevice(int fd, dev_t device) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<pid_t> holders, HoldersOf(device));
  if (std::any_of(holders.begin(), holders.end(), IsInOurMountNamespace)) return absl::OkStatus();
  return StartHolder(fd);
}

absl::Status ReleaseDevice(dev_t device) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<pid_t> holders, HoldersOf(device));
  for (const pid_t pid : holders) {
    absl::StatusOr<bool> holds = true;
    const bool ended = EndSideProcess(pid, [&] { return (holds = Holds(pid, device)).value_or(false); });
    if (!holds.ok()) return holds.status();
    if (ended) continue;
    return Unavailable("process {} holds the device {}:{} open and does not end: call again", pid, major(device),
                       minor(device));
  }
  return absl::OkStatus();
}

}  // namespace mooring
