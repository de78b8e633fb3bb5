#include "mounter/process/side_process.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>

#include "base/child.h"
#include "base/file/await_input.h"
#include "base/file/pipe.h"
#include "base/file/unique_fd.h"
#include "base/status.h"
#include "mounter/process/root_cgroup.h"
#include "mounter/sys/syscalls.h"

namespace mooring {
namespace {

constexpr std::chrono::seconds kDeathPatience{2}, kSetupPatience{5};

void WriteTo(const char* path, const char* text) {
  const int fd = ::open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return;
  const ssize_t done = ::write(fd, text, std::strlen(text));
  static_cast<void>(done);  // best effort: it may not be permitted
  ::close(fd);
}

// `kept` is sorted. Standard output and error are closed too, because the reader of the log waits for their end.
void CloseAllBut(const std::vector<int>& kept) {
  unsigned from = 0;
  for (const int fd : kept) {
    const auto number = static_cast<unsigned>(fd);
    if (number > from) ::close_range(from, number - 1, 0);
    from = number + 1;
  }
  ::close_range(from, ~0U, 0);
}

// Uses the system call, because libcap allocates memory. If a seccomp filter refuses it, the privileges stay.
void KeepCapabilities(bool sys_admin) {
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, 2> sets = {};
  if (sys_admin) sets[0].effective = sets[0].permitted = 1U << static_cast<unsigned>(CAP_SYS_ADMIN);
  ::syscall(SYS_capset, &header, sets.data());
}

void BlockSignals(bool ends_on_sigterm) {
  sigset_t blocked;
  ::sigfillset(&blocked);
  if (ends_on_sigterm) {
    ::signal(SIGTERM, SIG_DFL);
    ::sigdelset(&blocked, SIGTERM);
  }
  ::sigprocmask(SIG_SETMASK, &blocked, nullptr);
}

[[noreturn]] void RunAside(const SideProcessSpec& spec, const std::function<int()>& work) {
  BlockSignals(spec.ends_on_sigterm);
  ::setsid();
  if (::chdir("/") != 0) ::_exit(1);
  ::prctl(PR_SET_NAME, spec.name.c_str());
  CloseAllBut(spec.kept);
  WriteTo("/proc/self/oom_score_adj", "-1000");
  MoveToRootCgroup(0);
  KeepCapabilities(spec.keeps_sys_admin);
  ::_exit(work());
}

}  // namespace

absl::StatusOr<pid_t> StartSideProcess(const SideProcessSpec& spec, const std::function<int()>& work) {
  SideProcessSpec sorted = spec;
  std::sort(sorted.kept.begin(), sorted.kept.end());
  MOORING_ASSIGN_OR_RETURN(Pipe pipe, MakePipe());
  const pid_t pid = ::fork();
  if (pid < 0) return ErrnoStatus(errno, "fork", spec.name);
  if (pid == 0) RunAside(sorted, work);
  pipe.writer.reset();
  AwaitInput(pipe.reader, std::chrono::steady_clock::now() + kSetupPatience);  // its end: the child has closed it
  return pid;
}

bool EndSideProcess(pid_t pid, const std::function<bool()>& is_meant) {
  const UniqueFd process = OpenPidFd(pid);
  if (!process.ok() && errno == ESRCH) return true;
  if (is_meant && !is_meant()) return true;
  if (!process.ok() || (sys::PidFdSendSignal(process.get(), SIGKILL) != 0 && errno != ESRCH)) ::kill(pid, SIGKILL);
  const bool gone = process.ok() && EndsWithin(process, kDeathPatience);
  if (gone) ::waitpid(pid, nullptr, WNOHANG);  // fails if it is not a child of this process
  return gone;
}

}  // namespace mooring
