// The real mooring-manager as a child process.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

namespace mooring::testing {

bool IsOverEtcd();  // MOORING_TEST_STATE=etcd: the managers keep their records in etcd

class ManagerProcess {
 public:
  struct Options {
    std::string socket;
    std::string state_dir;
    std::string runtime_dir;
    std::string log_file;                       // receives stdout and stderr
    std::vector<std::string> flags = {};        // added to the standard flags
    std::vector<std::string> environment = {};  // NAME=value, added to PATH
    std::vector<std::string> wrapper = {};      // a command that executes the manager, which is appended
    std::vector<int> inherited = {};            // become descriptors 3, 4, …
  };

  explicit ManagerProcess(Options options) : options_(std::move(options)) {}
  ManagerProcess(const ManagerProcess&) = delete;
  ManagerProcess& operator=(const ManagerProcess&) = delete;
  ~ManagerProcess();  // kills the process

  Options& options() { return options_; }  // changes count from the next start
  pid_t pid() const { return pid_; }
  bool running();

  void Launch();
  int Wait(std::chrono::seconds patience = std::chrono::seconds(30));  // the exit status, 128 + signal
  int End(int signal);
  std::string Log() const;

 private:
  Options options_;
  pid_t pid_ = -1;
  int exit_status_ = 0;
};

}  // namespace mooring::testing
