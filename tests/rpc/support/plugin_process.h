// The real mooring-plugin as a child process, which can be started, stopped, killed and started again.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/program.h"

namespace mooring::testing {

class PluginProcess : public Program {
 public:
  struct Options {
    std::string socket;                                   // empty: no --endpoint
    std::string state_dir;                                // empty: no --state-dir
    std::string log_file;                                 // of stdout and stderr, appended to
    std::vector<std::string> flags = {};                  // after --endpoint and --state-dir
    std::map<std::string, std::string> environment = {};  // PATH is added if it is missing
    bool own_mount_namespace = false;                     // a copy of the test's, as a plugin in a container has one
    std::string first = {};                               // shell commands that run in that namespace before the plugin
  };

  explicit PluginProcess(Options options) : options_(std::move(options)) {}

  Options& options() { return options_; }  // changes count from the next start

  void Launch();  // waits for nothing
  bool Start();   // waits until Probe says ready; the test fails if that takes more than 10 s

 private:
  Options options_;
};

// Runs a plugin that must end by itself within 10 s, and deletes its log.
struct PluginRun {
  int status = 0;
  std::string log;
};
PluginRun RunPlugin(PluginProcess::Options options);

}  // namespace mooring::testing
