#include "manager/launch/plugin_process.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>
#include <vector>

#include "base/child.h"
#include "base/file/await_input.h"
#include "base/file/directory.h"
#include "base/file/whole_file.h"
#include "base/host.h"
#include "base/log.h"
#include "base/status.h"
#include "manager/launch/process_log.h"
#include "manager/launch/wake_event.h"
#include "mounter/sys/syscalls.h"

namespace mooring::manager {
namespace {

pid_t PidOfServer(const std::string& socket_path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (socket_path.size() >= sizeof address.sun_path) return 0;
  std::memcpy(address.sun_path, socket_path.data(), socket_path.size());
  const UniqueFd link(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (::connect(link.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return 0;
  ucred server = {};
  socklen_t size = sizeof server;
  if (::getsockopt(link.get(), SOL_SOCKET, SO_PEERCRED, &server, &size) != 0) return 0;
  return server.pid;
}

// Compares only the names of the directory, which is unique, and of the socket. A server may have bound the socket as
// "//run/…", or below a symbolic link.
bool IsSamePlace(const std::filesystem::path& bound, const std::filesystem::path& socket_path) {
  return bound.filename() == socket_path.filename() &&
         bound.parent_path().filename() == socket_path.parent_path().filename();
}

// The sockets that listen at this path in the network namespace of the process, named as in /proc/PID/fd.
std::vector<std::string> ListeningAt(const std::string& socket_path, pid_t pid) {
  constexpr unsigned long kListens = 1 << 16;  // __SO_ACCEPTCON, see proc_net(5)
  std::ifstream table(fmt::format("/proc/{}/net/unix", pid));
  std::vector<std::string> sockets;
  for (std::string line; std::getline(table, line);) {
    std::istringstream fields(line);
    std::string address, references, protocol, type, state, inode, path;
    unsigned long flags = 0;
    fields >> address >> references >> protocol >> std::hex >> flags >> type >> state >> inode >> std::ws;
    std::getline(fields, path);
    if ((flags & kListens) != 0 && IsSamePlace(path, socket_path)) sockets.push_back(fmt::format("socket:[{}]", inode));
  }
  return sockets;
}

bool HasAnyOpen(pid_t pid, const std::vector<std::string>& sockets) {
  const std::string directory = fmt::format("/proc/{}/fd", pid);
  const auto descriptors = EntriesOf(directory);
  if (!descriptors.ok()) return false;
  return std::any_of(descriptors->begin(), descriptors->end(), [&](const std::string& descriptor) {
    std::error_code error;
    const std::string open = std::filesystem::read_symlink(fmt::format("{}/{}", directory, descriptor), error);
    return !error && std::find(sockets.begin(), sockets.end(), open) != sockets.end();
  });
}

}  // namespace

UniqueFd ServerOf(const std::string& socket_path, pid_t except) {
  const pid_t pid = PidOfServer(socket_path);
  if (pid <= 0 || pid == ::getpid() || pid == except) return {};
  UniqueFd process = OpenPidFd(pid);
  // Checked after the pidfd is open. If the process still has not ended then, the pid was not reused in between.
  if (process.ok() && HasAnyOpen(pid, ListeningAt(socket_path, pid)) && !HasInput(process)) {
    return process;
  }
  log::Warning(
      "the process that serves this socket is left alone: the one that called listen(2) does not have it open any more",
      {{"socket", socket_path}, {"pid", std::to_string(pid)}});
  return {};
}

absl::StatusOr<std::string> StartTimeOf(pid_t pid) {
  constexpr int kFieldsToStartTime = 20;  // after the name in parentheses, see proc(5)
  MOORING_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(fmt::format("/proc/{}/stat", pid)));
  const std::size_t end_of_name = text.rfind(')');
  if (end_of_name == std::string::npos) return NotFound("there is no process {}", pid);
  std::istringstream fields(text.substr(end_of_name + 1));
  std::string field;
  for (int i = 0; i < kFieldsToStartTime; ++i) fields >> field;
  return field;
}

absl::StatusOr<ProcessIdentity> IdentityOf(pid_t pid) {
  MOORING_ASSIGN_OR_RETURN(const std::string start_time, StartTimeOf(pid));
  MOORING_ASSIGN_OR_RETURN(const std::string boot, BootId());
  return ProcessIdentity{pid, start_time, boot};
}

void KillServerLeft(const std::string& socket_path) {
  const UniqueFd server = ServerOf(socket_path);
  if (server.ok()) sys::PidFdSendSignal(server.get(), SIGKILL);
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
  if (!server_.ok()) KillServerLeft(socket_path_);
  return ended_ = true;
}

bool PluginProcess::HaveAllEnded() { return HasEnded() && (!server_.ok() || HasInput(server_)); }

bool PluginProcess::WaitForAll(Clock::time_point until, const std::stop_token& cut) {
  WakeEvent wake;
  const std::stop_callback on_cut(cut, [&wake] { wake.Wake(); });
  while (!HaveAllEnded()) {
    if (cut.stop_requested() || Clock::now() >= until) return false;
    wake.Wait(until, {ended_ ? server_.get() : pidfd_.get()});
  }
  return true;
}

void PluginProcess::Terminate() {
  server_ = ServerOf(socket_path_, pid_);
  SignalAll(SIGTERM);
}

void PluginProcess::SignalAll(int number) {
  for (const UniqueFd* process : {&pidfd_, static_cast<const UniqueFd*>(&server_)}) {
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
    if (!server_.ok()) KillServerLeft(socket_path_);  // it may serve only since then
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
