// mooring-manager: volumes of any CSI plugin for this host. Flags in config.h, the parts in manager.h and server.h.
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <cstdio>
#include <memory>

#include "absl/synchronization/mutex.h"
#include "base/host.h"
#include "base/log.h"
#include "base/status.h"
#include "base/version.h"
#include "manager/config.h"
#include "manager/manager.h"
#include "manager/server.h"
#include "mounter/kernel_mounter.h"

namespace {

using mooring::manager::Config;
using mooring::manager::ListeningSocket;
using mooring::manager::Manager;
using mooring::manager::Server;

constexpr int kKeepEnvironment = 0;

int Fail(const absl::Status& status) {
  fmt::print(stderr, "mooring-manager: {}\n", mooring::Message(status));
  return 1;
}

// Blocked before the first thread starts, so that they reach nobody but sigwait().
sigset_t BlockStopSignals() {
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGTERM);
  ::sigaddset(&signals, SIGINT);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  ::signal(SIGPIPE, SIG_IGN);  // a client that goes away is an error of a write
  return signals;
}

int Run(const Config& config) {
  const sigset_t signals = BlockStopSignals();
  mooring::RaiseOpenFileLimit();
  ::umask(022);
  auto socket = ListeningSocket::Inherit();
  if (!socket.ok()) return Fail(socket.status());
  mooring::KernelMounter kernel;
  const auto manager = Manager::Start(config, kernel);
  if (!manager.ok()) return Fail(manager.status());
  const auto server = Server::Start(**manager, *std::move(socket));
  if (!server.ok()) return Fail(server.status());
  ::sd_notify(kKeepEnvironment, "READY=1");
  int signal = 0;
  ::sigwait(&signals, &signal);
  ::sd_notify(kKeepEnvironment, "STOPPING=1");
  mooring::log::Info("stopping", {{"signal", fmt::format("{}", signal)}});
  const absl::Status stopped = (*server)->Stop(config.stop_timeout);
  if (!stopped.ok()) {
    mooring::log::Error("ending in the middle of a call", {{"cause", mooring::Message(stopped)}});
    ::_exit(1);  // as a kill would: to return would be to wait for the threads of those calls
  }
  (*manager)->Stop();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  // Debian's abseil is built to look for deadlocks at every lock, a tenth of the time of a call.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  const absl::StatusOr<Config> config = mooring::manager::ParseConfig(argc, argv);
  if (absl::IsCancelled(config.status())) {
    fmt::print("{}\n", mooring::Message(config.status()));
    return 0;
  }
  if (!config.ok()) return Fail(config.status());
  if (config->print_version) {
    fmt::print("mooring-manager {} ({})\n", mooring::Version(), mooring::Commit());
    return 0;
  }
  if (const absl::Status status = mooring::log::Setup(config->log_level, config->log_format); !status.ok()) {
    return Fail(status);
  }
  return Run(*config);
}
