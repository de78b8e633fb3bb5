// The process of a plugin that the exec launcher started, by this manager or by one before it.
//
// What ends is that process and, where it is a script that has started the plugin, the one that serves the socket.
// Whatever else they started goes on: it may serve a mount, as a FUSE daemon does, and mounts outlive their plugin,
// (j) 4.
#ifndef MOORING_MANAGER_LAUNCH_PLUGIN_PROCESS_H_
#define MOORING_MANAGER_LAUNCH_PLUGIN_PROCESS_H_

#include <sys/types.h>

#include <memory>
#include <string>

#include "base/file/unique_fd.h"
#include "manager/launch/launcher.h"
#include "manager/launch/socket_server.h"

namespace mooring::manager {

// Which process it is, for good: a pid comes again, a pid with its start time in one boot does not.
struct ProcessIdentity {
  pid_t pid = 0;
  std::string start_time;  // as in /proc/PID/stat
  std::string boot;

  bool operator==(const ProcessIdentity&) const = default;
};

absl::StatusOr<ProcessIdentity> IdentityOf(pid_t pid);  // NOT_FOUND: there is no such process

// SIGKILL to who serves the socket of a plugin that has ended: nobody else ends what a script has left.
void KillServerLeft(const std::string& socket_path);

class PluginProcess final : public Launched {
 public:
  // NOT_FOUND: it is gone, or another has its pid now.
  // `directory` has its log and its socket.
  static absl::StatusOr<std::unique_ptr<PluginProcess>> Open(const ProcessIdentity& identity,
                                                             const std::string& directory);

  bool IsAlive() override;
  std::string Words() override;
  absl::Status End(const EndDeadline& deadline) override;
  std::string Handle() const override;
  int ExitFd() const override { return pidfd_.get(); }

 private:
  PluginProcess(pid_t pid, UniqueFd pidfd, const std::string& directory);
  bool HasEnded();
  bool HaveAllEnded();                                                   // the server, too
  bool WaitForAll(Clock::time_point until, const std::stop_token& cut);  // whether they have ended
  void Terminate();
  void SignalAll(int number);

  const pid_t pid_;
  const UniqueFd pidfd_;
  const std::string log_path_, socket_path_;
  SocketServer server_;  // where it is another process; looked for when this one ends
  bool ended_ = false;
  bool killed_ = false;  // sent SIGKILL: it is not waited for again
  std::string how_;
};

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_LAUNCH_PLUGIN_PROCESS_H_
