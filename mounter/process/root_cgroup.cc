#include "mounter/process/root_cgroup.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <array>
#include <charconv>

namespace mooring {
namespace {

bool IsCgroup2(const char* path) {
  struct statfs status = {};
  return ::statfs(path, &status) == 0 && status.f_type == CGROUP2_SUPER_MAGIC;
}

// The places where systemd mounts cgroup v2: alone, or beside version 1. Null: it is not mounted.
const char* RootCgroup() {
  if (IsCgroup2("/sys/fs/cgroup")) return "/sys/fs/cgroup/cgroup.procs";
  return IsCgroup2("/sys/fs/cgroup/unified") ? "/sys/fs/cgroup/unified/cgroup.procs" : nullptr;
}

}  // namespace

void MoveToRootCgroup(pid_t pid) {
  const char* const path = RootCgroup();
  if (path == nullptr) return;
  const int fd = ::open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return;
  std::array<char, 24> text = {};
  const char* const end = std::to_chars(text.data(), text.data() + text.size(), pid).ptr;
  const ssize_t done = ::write(fd, text.data(), static_cast<std::size_t>(end - text.data()));
  static_cast<void>(done);  // it may not be permitted
  ::close(fd);
}

}  // namespace mooring
