// A program of this build as a child process, which can be started, stopped, killed and started again.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

namespace mooring::testing {

class Program {
 public:
  struct Command {
    std::string binary;
    std::vector<std::string> arguments;    // the first is the name
    std::vector<std::string> environment;  // NAME=value; PATH is added if it is missing
    std::string log_file;                  // of stdout and stderr, appended to
    std::vector<int> inherited = {};       // become descriptors 3, 4, …; no others are inherited
    bool own_mount_namespace = false;      // a copy of the test's, as a program in a container has one
  };

  Program() = default;
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program() { Kill(); }

  pid_t pid() const { return pid_; }
  bool running();

  // The exit status, or 128 + the signal that ended the process.
  int Wait(std::chrono::seconds patience = std::chrono::seconds(30));
  int Terminate();  // SIGTERM
  int Kill();       // SIGKILL
  int End(int signal);

  std::string Log() const;  // everything since the first start

 protected:
  void Launch(Command command);  // waits for nothing

 private:
  pid_t pid_ = -1;
  int exit_status_ = 0;
  std::string log_file_;
};

}  // namespace mooring::testing
