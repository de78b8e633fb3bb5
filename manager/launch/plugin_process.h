// The process of a plugin that the exec launcher of this manager, or of an earlier one, started.
//
// End ends that process. If that is a script that started the plugin, End also ends the process that serves the socket.
// Other processes that they started run on: one may serve a mount, as a FUSE daemon does, and mounts outlive their
// plugin.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include "base/file/unique_fd.h"
#include "manager/launch/launcher.h"

namespace mooring::manager {

// Gives a pidfd of the process that called listen(2) at this path and still has the socket open. SO_PEERCRED alone
// gives a pid that another process may have by now. The pidfd is not open if nobody serves there, or if the process is
// not certain, which is logged. Never gives this process or `except`.
UniqueFd ServerOf(const std::string& socket_path, pid_t except = 0);

// Identifies a process for good: a pid is reused, but not with the same start time in the same boot.
struct ProcessIdentity {
  pid_t pid = 0;
  std::string start_time;  // as in /proc/PID/stat
  std::string boot;

  bool operator==(const ProcessIdentity&) const = default;
};

// NOT_FOUND: there is no such process.
absl::StatusOr<ProcessIdentity> IdentityOf(pid_t pid);
absl::StatusOr<std::string> StartTimeOf(pid_t pid);  // ProcessIdentity::start_time

// Sends SIGKILL to the process that serves the socket of a plugin that has ended, because a script may leave it behind.
void KillServerLeft(const std::string& socket_path);

class PluginProcess final : public Launched {
 public:
  // `directory` has the log and the socket. NOT_FOUND: the process is gone, or another has its pid now.
  static absl::StatusOr<std::unique_ptr<PluginProcess>> Open(const ProcessIdentity& identity,
                                                             const std::string& directory);

  bool IsAlive() override;
  std::string Describe() override;
  absl::Status End(Clock::time_point until, const std::stop_token& stop) override;
  std::string Handle() const override;
  int ExitFd() const override { return pidfd_.get(); }

 private:
  PluginProcess(pid_t pid, UniqueFd pidfd, const std::string& directory);
  bool HasEnded();
  bool HaveAllEnded();                                                   // also the server
  bool WaitForAll(Clock::time_point until, const std::stop_token& cut);  // whether they have ended
  void Terminate();
  void SignalAll(int number);

  const pid_t pid_;
  const UniqueFd pidfd_;
  const std::string log_path_, socket_path_;
  UniqueFd server_;  // a pidfd, if it is another process; found when this one is terminated
  bool ended_ = false;
  bool terminated_ = false;  // was sent SIGTERM
  bool killed_ = false;      // was sent SIGKILL; later calls of End do not wait
  std::string how_;          // it ended
};

}  // namespace mooring::manager
