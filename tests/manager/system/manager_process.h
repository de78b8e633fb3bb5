// The real mooring-manager as a child process: started, waited for, stopped, killed, started again.
#ifndef MOORING_TESTS_MANAGER_SYSTEM_MANAGER_PROCESS_H_
#define MOORING_TESTS_MANAGER_SYSTEM_MANAGER_PROCESS_H_

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

namespace mooring::testing {

class ManagerProcess {
 public:
  struct Options {
    std::string socket;
    std::string state_dir;
    std::string runtime_dir;
    std::string log_file;                       // of stdout and stderr, appended to
    std::vector<std::string> flags = {};        // behind those
    std::vector<std::string> environment = {};  // NAME=value, beside PATH
    std::vector<std::string> wrapper = {};      // a command that becomes the manager: what is behind it
    std::vector<int> inherited = {};            // open files that are its 3, 4, …
  };

  explicit ManagerProcess(Options options) : options_(std::move(options)) {}
  ManagerProcess(const ManagerProcess&) = delete;
  ManagerProcess& operator=(const ManagerProcess&) = delete;
  ~ManagerProcess();  // kills it, if it still runs

  Options& options() { return options_; }  // changed ones count from the next start
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

#endif  // MOORING_TESTS_MANAGER_SYSTEM_MANAGER_PROCESS_H_
