// The process of a plugin that the exec launcher started, by this manager or by one before it.
#ifndef MOORING_MANAGER_SUPERVISOR_PLUGIN_PROCESS_H_
#define MOORING_MANAGER_SUPERVISOR_PLUGIN_PROCESS_H_

#include <sys/types.h>

#include <memory>
#include <string>

#include "base/unique_fd.h"
#include "manager/supervisor/launcher.h"

namespace mooring::manager {

// Which process it is, for good: a pid comes again, a pid with its start time in one boot does not.
struct ProcessIdentity {
  pid_t pid = 0;
  std::string start_time;  // as in /proc/PID/stat
  std::string boot;

  bool operator==(const ProcessIdentity&) const = default;
};

absl::StatusOr<ProcessIdentity> IdentityOf(pid_t pid);  // NOT_FOUND: there is no such process

class PluginProcess final : public Launched {
 public:
  // NOT_FOUND: it is gone, or another has its pid now.
  static absl::StatusOr<std::unique_ptr<PluginProcess>> Open(const ProcessIdentity& identity, std::string log_path);

  bool IsAlive() override;
  std::string Words() override;
  absl::Status End(Clock::time_point until) override;
  std::string Handle() const override;
  int ExitFd() const override { return pidfd_.get(); }

 private:
  PluginProcess(pid_t pid, UniqueFd pidfd, std::string log_path);
  bool HasEnded(Clock::time_point until);  // waits
  void SignalGroup(int number);

  const pid_t pid_;
  const UniqueFd pidfd_;
  const std::string log_path_;
  bool ended_ = false;
  bool killed_ = false;  // sent SIGKILL: it is not waited for again
  std::string how_;
};

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_SUPERVISOR_PLUGIN_PROCESS_H_
