// The real mooring-plugin as a child process: started, waited for, stopped, killed, started again. Ends only its own
// child.
#ifndef MOORING_TESTS_RPC_SUPPORT_PLUGIN_PROCESS_H_
#define MOORING_TESTS_RPC_SUPPORT_PLUGIN_PROCESS_H_

#include <sys/types.h>

#include <chrono>
#include <map>
#include <string>
#include <vector>

namespace mooring::testing {

class PluginProcess {
 public:
  struct Options {
    std::string socket;                              // empty: no --endpoint
    std::string state_dir;                           // empty: no --state-dir
    std::string log_file;                            // of stdout and stderr, appended to
    std::vector<std::string> flags;                  // behind those
    std::map<std::string, std::string> environment;  // all of it, but for PATH where that is not in it
    bool own_mount_namespace = false;                // a copy of the test's, as a plugin in a container has one
    std::string first = {};  // what a shell does before it becomes the plugin, in that namespace
  };

  explicit PluginProcess(Options options) : options_(std::move(options)) {}
  PluginProcess(const PluginProcess&) = delete;
  PluginProcess& operator=(const PluginProcess&) = delete;
  ~PluginProcess();  // kills it, if it still runs

  Options& options() { return options_; }  // changed ones count from the next start
  pid_t pid() const { return pid_; }
  bool running();

  void Launch();  // waits for nothing
  bool Start();   // until Probe says ready; a failure of the test where that takes more than 10 s

  // The exit status, 128 + the signal where one ended it.
  int Wait(std::chrono::seconds patience = std::chrono::seconds(30));
  int Terminate();  // SIGTERM
  int Kill();       // SIGKILL
  int End(int signal);

  std::string Log() const;  // all it has written since the first start

 private:
  Options options_;
  pid_t pid_ = -1;
  int exit_status_ = 0;
};

}  // namespace mooring::testing

#endif  // MOORING_TESTS_RPC_SUPPORT_PLUGIN_PROCESS_H_
