#include "manager/supervisor/plugin_process.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>
#include <utility>

#include "base/host.h"
#include "base/status.h"
#include "manager/supervisor/process_log.h"

namespace mooring::manager {
namespace {

int PidfdOpen(pid_t pid) { return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)); }

int PidfdSignal(int pidfd, int number) {
  return static_cast<int>(::syscall(SYS_pidfd_send_signal, pidfd, number, nullptr, 0));
}

int Milliseconds(Clock::duration time) {
  const auto count = std::chrono::ceil<std::chrono::milliseconds>(time).count();
  return static_cast<int>(std::clamp<decltype(count + 0)>(count, 0, 1 << 30));
}

std::string HowItEnded(const siginfo_t& info) {
  if (info.si_code == CLD_EXITED) return fmt::format("ended with exit code {}", info.si_status);
  return fmt::format("was ended by signal {} ({})", info.si_status, ::strsignal(info.si_status));
}

}  // namespace

absl::StatusOr<ProcessIdentity> IdentityOf(pid_t pid) {
  constexpr int kFieldsToStartTime = 20;  // behind the name in parentheses, see proc(5)
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::size_t end_of_name = text.rfind(')');
  if (end_of_name == std::string::npos) return NotFound(fmt::format("there is no process {}", pid));
  std::istringstream fields(text.substr(end_of_name + 1));
  std::string field;
  for (int i = 0; i < kFieldsToStartTime; ++i) fields >> field;
  MOORING_ASSIGN_OR_RETURN(const std::string boot, BootId());
  return ProcessIdentity{pid, field, boot};
}

PluginProcess::PluginProcess(pid_t pid, UniqueFd pidfd, std::string log_path)
    : pid_(pid), pidfd_(std::move(pidfd)), log_path_(std::move(log_path)) {}

absl::StatusOr<std::unique_ptr<PluginProcess>> PluginProcess::Open(const ProcessIdentity& identity,
                                                                   std::string log_path) {
  UniqueFd pidfd(PidfdOpen(identity.pid));
  if (!pidfd.ok()) {
    return errno == ESRCH ? NotFound(fmt::format("there is no process {}", identity.pid))
                          : ErrnoStatus(errno, fmt::format("open process {}", identity.pid));
  }
  // Asked once it is held: from now on the pid is nobody else's.
  MOORING_ASSIGN_OR_RETURN(const ProcessIdentity now, IdentityOf(identity.pid));
  if (now != identity) return NotFound(fmt::format("process {} is another one now", identity.pid));
  return std::unique_ptr<PluginProcess>(new PluginProcess(identity.pid, std::move(pidfd), std::move(log_path)));
}

bool PluginProcess::HasEnded(Clock::time_point until) {
  if (ended_) return true;
  pollfd waited = {pidfd_.get(), POLLIN, 0};
  int polled = 0;
  do {
    polled = ::poll(&waited, 1, Milliseconds(until - Clock::now()));
  } while (polled < 0 && errno == EINTR);
  if (polled <= 0) return false;
  siginfo_t info = {};
  // Looked at, not taken: until then its pid, which is its group's, is nobody else's. One that an earlier manager
  // started is init's to ask.
  const bool ours =
      ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid_;
  how_ = ours ? HowItEnded(info) : "ended";
  if (ours) {
    ::kill(-pid_, SIGKILL);  // what it leaves: nobody is there to end that
    ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG);
  }
  return ended_ = true;
}

// The group has its number, which is surely its own only as long as the leader is there: as the descriptor tells.
void PluginProcess::SignalGroup(int number) {
  if (HasEnded(Clock::now())) return;
  if (::kill(-pid_, number) != 0) PidfdSignal(pidfd_.get(), number);
}

bool PluginProcess::IsAlive() {
  TrimProcessLog(log_path_);  // looked at as often as the process is
  return !HasEnded(Clock::now());
}

std::string PluginProcess::Words() {
  const std::string lines = LastWords(log_path_);
  const std::string what = fmt::format("process {} {}", pid_, HasEnded(Clock::now()) ? how_ : "runs");
  return lines.empty() ? what : fmt::format("{}; its last words: {}", what, lines);
}

absl::Status PluginProcess::End(Clock::time_point until) {
  constexpr auto kTimeToDie = std::chrono::seconds(10);
  // The group, for a program may be a script that has started the plugin.
  if (!killed_) SignalGroup(SIGTERM);
  if (HasEnded(killed_ ? Clock::now() : until)) return absl::OkStatus();
  SignalGroup(SIGKILL);
  const bool first = !std::exchange(killed_, true);
  if (HasEnded(first ? Clock::now() + kTimeToDie : Clock::now())) return absl::OkStatus();
  return absl::DeadlineExceededError(
      fmt::format("process {} was sent SIGKILL and has not ended yet: it waits in the kernel", pid_));
}

std::string PluginProcess::Handle() const { return fmt::format("process {}", pid_); }

}  // namespace mooring::manager
