#include "manager/launch/plugin_process.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <sstream>
#include <utility>

#include "base/file/whole_file.h"
#include "base/host.h"
#include "base/status.h"
#include "manager/launch/process_log.h"
#include "manager/launch/waker.h"

namespace mooring::manager {
namespace {

int PidfdOpen(pid_t pid) { return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)); }

int PidfdSignal(int pidfd, int number) {
  return static_cast<int>(::syscall(SYS_pidfd_send_signal, pidfd, number, nullptr, 0));
}

std::string HowItEnded(const siginfo_t& info) {
  if (info.si_code == CLD_EXITED) return fmt::format("ended with exit code {}", info.si_status);
  return fmt::format("was ended by signal {} ({})", info.si_status, ::strsignal(info.si_status));
}

}  // namespace

absl::StatusOr<ProcessIdentity> IdentityOf(pid_t pid) {
  constexpr int kFieldsToStartTime = 20;  // behind the name in parentheses, see proc(5)
  MOORING_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(fmt::format("/proc/{}/stat", pid)));
  const std::size_t end_of_name = text.rfind(')');
  if (end_of_name == std::string::npos) return NotFound(fmt::format("there is no process {}", pid));
  std::istringstream fields(text.substr(end_of_name + 1));
  std::string field;
  for (int i = 0; i < kFieldsToStartTime; ++i) fields >> field;
  MOORING_ASSIGN_OR_RETURN(const std::string boot, BootId());
  return ProcessIdentity{pid, field, boot};
}

void KillServerLeft(const std::string& socket_path) {
  const SocketServer server = ServerOf(socket_path);
  if (server.process.ok()) PidfdSignal(server.process.get(), SIGKILL);
}

PluginProcess::PluginProcess(pid_t pid, UniqueFd pidfd, const std::string& directory)
    : pid_(pid), pidfd_(std::move(pidfd)), log_path_(directory + "/log"), socket_path_(directory + "/csi.sock") {}

absl::StatusOr<std::unique_ptr<PluginProcess>> PluginProcess::Open(const ProcessIdentity& identity,
                                                                   const std::string& directory) {
  UniqueFd pidfd(PidfdOpen(identity.pid));
  if (!pidfd.ok()) {
    return errno == ESRCH ? NotFound(fmt::format("there is no process {}", identity.pid))
                          : ErrnoStatus(errno, fmt::format("open process {}", identity.pid));
  }
  // Asked once it is held: from now on the pid is nobody else's.
  const absl::StatusOr<ProcessIdentity> now = IdentityOf(identity.pid);
  if (!now.ok() && !IsEnded(pidfd.get())) return now.status();
  if (!now.ok() || *now != identity)
    return NotFound(fmt::format("process {} is another one now, or has ended", identity.pid));
  return std::unique_ptr<PluginProcess>(new PluginProcess(identity.pid, std::move(pidfd), directory));
}

bool PluginProcess::HasEnded() {
  if (ended_) return true;
  if (!IsEnded(pidfd_.get())) return false;
  siginfo_t info = {};
  // One that an earlier manager started is init's to ask.
  const bool ours = ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG) == 0 && info.si_pid == pid_;
  how_ = ours ? HowItEnded(info) : "ended";
  if (!server_.process.ok()) KillServerLeft(socket_path_);
  return ended_ = true;
}

bool PluginProcess::HaveAllEnded() { return HasEnded() && (!server_.process.ok() || IsEnded(server_.process.get())); }

bool PluginProcess::WaitForAll(Clock::time_point until, const std::stop_token& cut) {
  Waker waker;
  const std::stop_callback on_cut(cut, [&waker] { waker.Wake(); });
  while (!HaveAllEnded()) {
    if (cut.stop_requested() || Clock::now() >= until) return false;
    waker.Wait(until, {ended_ ? server_.process.get() : pidfd_.get()});
  }
  return true;
}

void PluginProcess::Terminate() {
  server_ = ServerOf(socket_path_, pid_);
  SignalAll(SIGTERM);
}

void PluginProcess::SignalAll(int number) {
  for (const UniqueFd* process : {&pidfd_, static_cast<const UniqueFd*>(&server_.process)}) {
    if (process->ok()) PidfdSignal(process->get(), number);
  }
}

bool PluginProcess::IsAlive() {
  TrimProcessLog(log_path_);  // looked at as often as the process is
  return !HasEnded();
}

std::string PluginProcess::Words() {
  const std::string lines = LastWords(log_path_);
  const std::string what = fmt::format("process {} {}", pid_, HasEnded() ? how_ : "runs");
  return lines.empty() ? what : fmt::format("{}; its last words: {}", what, lines);
}

absl::Status PluginProcess::End(const EndDeadline& deadline) {
  constexpr auto kTimeToDie = std::chrono::seconds(10);
  if (HasEnded()) {
    if (!server_.process.ok()) KillServerLeft(socket_path_);  // it may serve only since then
  } else if (!killed_) {
    Terminate();
  }
  while (!HaveAllEnded() && !killed_ && !deadline.IsGivenUp() && Clock::now() < deadline.until()) {
    const std::stop_token changed = deadline.changed();
    WaitForAll(deadline.until(), changed);
  }
  if (HaveAllEnded()) return absl::OkStatus();
  if (deadline.IsGivenUp()) return absl::CancelledError(fmt::format("process {} is not waited for any more", pid_));
  SignalAll(SIGKILL);
  const bool first = !std::exchange(killed_, true);
  if (WaitForAll(first ? Clock::now() + kTimeToDie : Clock::now(), deadline.given_up())) return absl::OkStatus();
  if (deadline.IsGivenUp()) return absl::CancelledError(fmt::format("process {} is not waited for any more", pid_));
  return absl::DeadlineExceededError(
      fmt::format("process {} was sent SIGKILL and has not ended yet: it waits in the kernel", pid_));
}

std::string PluginProcess::Handle() const { return fmt::format("process {}", pid_); }

}  // namespace mooring::manager
