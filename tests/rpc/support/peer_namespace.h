// A second mount namespace, as the container of a task has one. Shared mounts propagate between it and the test's.
#pragma once

#include <sys/types.h>

#include <string>

namespace mooring::testing {

class PeerNamespace {
 public:
  PeerNamespace();  // a copy of this process's namespace
  PeerNamespace(const PeerNamespace&) = delete;
  PeerNamespace& operator=(const PeerNamespace&) = delete;
  ~PeerNamespace();

  int Run(const std::string& shell_command) const;  // in that namespace; returns the exit status
  std::string MountInfo() const;                    // /proc/PID/mountinfo of that namespace
  pid_t pid() const { return pid_; }                // of the process that is there

 private:
  pid_t pid_ = -1;
};

}  // namespace mooring::testing
