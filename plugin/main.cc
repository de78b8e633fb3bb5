// mooring-plugin: a CSI driver on a unix socket. Flags in config.h, the parts in server.h.
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <memory>

#include "base/log.h"
#include "base/status.h"
#include "base/version.h"
#include "mounter/kernel_mounter.h"
#include "plugin/config.h"
#include "plugin/server.h"

namespace {

int Fail(const absl::Status& status) {
  fmt::print(stderr, "mooring-plugin: {}\n", mooring::Message(status));
  return 1;
}

// Blocked before the first thread starts, so that they reach nobody but sigwait().
sigset_t BlockStopSignals() {
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGTERM);
  ::sigaddset(&signals, SIGINT);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return signals;
}

int Run(const mooring::Config& config) {
  const sigset_t signals = BlockStopSignals();
  mooring::KernelMounter mounter;
  const absl::StatusOr<std::unique_ptr<mooring::PluginServer>> server = mooring::PluginServer::Start(config, mounter);
  if (!server.ok()) return Fail(server.status());
  int signal = 0;
  ::sigwait(&signals, &signal);
  mooring::log::Info("stopping", {{"signal", fmt::format("{}", signal)}});
  const absl::Status stopped = (*server)->Stop(config.stop_timeout);
  if (stopped.ok()) return 0;
  mooring::log::Error("ending in the middle of a call", {{"cause", mooring::Message(stopped)}});
  ::_exit(1);  // to return would be to wait for the threads of those calls
}

}  // namespace

int main(int argc, char** argv) {
  const absl::StatusOr<mooring::Config> config = mooring::ParseConfig(argc, argv);
  if (absl::IsCancelled(config.status())) {
    fmt::print("{}\n", mooring::Message(config.status()));
    return 0;
  }
  if (!config.ok()) return Fail(config.status());
  if (config->print_version) {
    fmt::print("mooring-plugin {} ({})\n", mooring::Version(), mooring::Commit());
    return 0;
  }
  if (const absl::Status status = mooring::log::Setup(config->log_level, config->log_format); !status.ok()) {
    return Fail(status);
  }
  return Run(*config);
}
