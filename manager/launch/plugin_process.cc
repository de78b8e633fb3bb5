#include "manager/launch/plugin_process.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <sstream>
#include <utility>

#include "base/child.h"
#include "base/file/await_input.h"
#include "base/file/whole_file.h"
#include "base/host.h"
#include "base/status.h"
#include "manager/launch/process_log.h"
#include "manager/launch/wake_event.h"
#include "mounter/sys/syscalls.h"

namespace mooring::manager {

absl::StatusOr<ProcessIdentity> IdentityOf(pid_t pid) {
  constexpr int kFieldsToStartTime = 20;  // after the name in parentheses, see proc(5)
  MOORING_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(fmt::format("/proc/{}/stat", pid)));
  const std::size_t end_of_name = text.rfind(')');
  if (end_of_name == std::string::npos) return NotFound("there is no process {}", pid);
  std::istringstream fields(text.substr(end_of_name + 1));
  std::string field;
  for (int i = 0; i < kFieldsToStartTime; ++i) fields >> field;
  MOORING_ASSIGN_OR_RETURN(const std::string boot, BootId());
  return ProcessIdentity{pid, field, boot};
}

void KillServerLeft(const std::string& socket_path) {
  const SocketServer server = ServerOf(socket_path);
  if (server.process.ok()) sys::PidFdSendSignal(server.process.get(), SIGKILL);
}

PluginProcess::PluginProcess(pid_t pid, UniqueFd pidfd, const std::string& directory)
    : pid_(pid), pidfd_(std::move(pidfd)), log_path_(directory + "/log"), socket_path_(directory + "/csi.sock") {}

absl::StatusOr<std::unique_ptr<PluginProcess>> PluginProcess::Open(const ProcessIdentity& identity,
                                                                   const std::string& directory) {
  UniqueFd pidfd = OpenPidFd(identity.pid);
  if (!pidfd.ok()) {
    return errno == ESRCH ? NotFound("there is no process {}", identity.pid)
                          : ErrnoStatus(errno, fmt::format("open process {}", identity.pid));
  }
  // Compared after the pidfd is open, so that the pid cannot be reused in between.
  const absl::StatusOr<ProcessIdentity> now = IdentityOf(identity.pid);
  if (!now.ok() && !HasInput(pidfd)) return now.status();
  if (!now.ok() || *now != identity)
    return NotFound("process {} has ended; another process may have its pid", identity.pid);
  return std::unique_ptr<PluginProcess>(new PluginProcess(identity.pid, std::move(pidfd), directory));
}

bool PluginProcess::HasEnded() {
  if (ended_) return true;
  if (!HasInput(pidfd_)) return false;
  int status = 0;
  // waitpid(2) fails for a process that an earlier manager started, because init is its parent now.
  how_ = ::waitpid(pid_, &status, WNOHANG) == pid_ ? "ended: " + HowChildEnded(status) : "ended";
  if (!server_.process.ok()) KillServerLeft(socket_path_);
  return ended_ = true;
}

bool PluginProcess::HaveAllEnded() { return HasEnded() && (!server_.process.ok() || HasInput(server_.process)); }

bool PluginProcess::WaitForAll(Clock::time_point until, const std::stop_token& cut) {
  WakeEvent wake;
  const std::stop_callback on_cut(cut, [&wake] { wake.Wake(); });
  while (!HaveAllEnded()) {
    if (cut.stop_requested() || Clock::now() >= until) return false;
    wake.Wait(until, {ended_ ? server_.process.get() : pidfd_.get()});
  }
  return true;
}

void PluginProcess::Terminate() {
  server_ = ServerOf(socket_path_, pid_);
  SignalAll(SIGTERM);
}

void PluginProcess::SignalAll(int number) {
  for (const UniqueFd* process : {&pidfd_, static_cast<const UniqueFd*>(&server_.process)}) {
    if (process->ok()) sys::PidFdSendSignal(process->get(), number);
  }
}

bool PluginProcess::IsAlive() {
  TrimProcessLog(log_path_);  // here, because IsAlive is called in every round
  return !HasEnded();
}

std::string PluginProcess::Describe() {
  const std::string lines = LastLines(log_path_);
  const std::string what = fmt::format("process {} {}", pid_, HasEnded() ? how_ : "runs");
  return lines.empty() ? what : fmt::format("{}; its last output: {}", what, lines);
}

absl::Status PluginProcess::End(Clock::time_point until, const std::stop_token& stop) {
  constexpr auto kTimeToDie = std::chrono::seconds(10);
  const auto cancelled = [&] {
    return absl::CancelledError(fmt::format("the wait for the end of process {} was cancelled", pid_));
  };
  if (HasEnded()) {
    if (!server_.process.ok()) KillServerLeft(socket_path_);  // it may serve only since then
  } else if (!std::exchange(terminated_, true)) {
    Terminate();
  }
  if (HaveAllEnded() || (!killed_ && WaitForAll(until, stop))) return absl::OkStatus();
  if (stop.stop_requested()) return cancelled();
  SignalAll(SIGKILL);
  const bool first = !std::exchange(killed_, true);
  if (WaitForAll(first ? Clock::now() + kTimeToDie : Clock::now(), stop)) return absl::OkStatus();
  if (stop.stop_requested()) return cancelled();
  return absl::DeadlineExceededError(
      fmt::format("process {} was sent SIGKILL and has not ended yet: it waits in the kernel", pid_));
}

std::string PluginProcess::Handle() const { return fmt::format("process {}", pid_); }

}  // namespace mooring::manager
