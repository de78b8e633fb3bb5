#include "mounter/loop/device_holder.h"

#include <fmt/format.h>
#include <linux/fs.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <utility>

#include "base/file/directory.h"
#include "base/file/unique_fd.h"
#include "base/status.h"
#include "base/text/whole_number.h"
#include "mounter/loop/loop_device.h"
#include "mounter/process/side_process.h"

namespace mooring {
namespace {

bool IsHolder(const std::string& process) {
  std::ifstream file("/proc/" + process + "/comm");
  std::string name;
  return std::getline(file, name) && name == kHolderName;
}

// Also false for a process that has ended.
bool HasOpen(const std::string& process, dev_t device) {
  const std::string directory = "/proc/" + process + "/fd";
  const absl::StatusOr<std::vector<std::string>> names = EntriesOf(directory);
  if (!names.ok()) return false;
  return std::any_of(names->begin(), names->end(), [&](const std::string& name) {
    struct stat status = {};
    return ::stat((directory + "/" + name).c_str(), &status) == 0 && S_ISBLK(status.st_mode) &&
           status.st_rdev == device;
  });
}

bool Holds(pid_t pid, dev_t device) {
  const std::string process = std::to_string(pid);
  return IsHolder(process) && HasOpen(process, device);
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
    if (pid && Holds(*pid, device)) holders.push_back(*pid);
  }
  return holders;
}

absl::Status HoldDevice(const LoopInfo& loop) {
  MOORING_ASSIGN_OR_RETURN(const UniqueFd fd, OpenAsFound(loop));
  if (!fd.ok()) return Aborted("{} was detached at this moment: call again", loop.device);
  MOORING_ASSIGN_OR_RETURN(const std::vector<pid_t> holders, HoldersOf(loop.device_number));
  if (std::any_of(holders.begin(), holders.end(), IsInOurMountNamespace)) return absl::OkStatus();
  // An open device keeps its page cache. The holder of a read-only device must not keep data that was overwritten
  // below.
  if (loop.read_only) ::ioctl(fd.get(), BLKFLSBUF, 0);
  const SideProcessSpec spec = {.name = std::string(kHolderName), .kept = {fd.get()}, .ends_on_sigterm = true};
  return StartSideProcess(spec, HoldForEver).status();
}

absl::Status ReleaseDevice(dev_t device) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<pid_t> holders, HoldersOf(device));
  for (const pid_t pid : holders) {
    if (EndSideProcess(pid, [&] { return Holds(pid, device); })) continue;
    return Unavailable("process {} holds the loop device {}:{} open and does not end: call again", pid, major(device),
                       minor(device));
  }
  return absl::OkStatus();
}

}  // namespace mooring
