// The real mooring-manager as a child process.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tests/support/program.h"

namespace mooring::testing {

bool IsOverEtcd();  // MOORING_TEST_STATE=etcd: the managers keep their records in etcd

class ManagerProcess : public Program {
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

  Options& options() { return options_; }  // changes count from the next start

  void Launch();

 private:
  Options options_;
};

}  // namespace mooring::testing
