// mooring-manager: volumes of any CSI plugin for this host. Flags in config.h, the parts in manager.h and server.h.
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "base/host.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/status.h"
#include "base/version.h"
#include "manager/config.h"
#include "manager/manager.h"
#include "manager/process/server.h"
#include "metrics/listener.h"
#include "mounter/kernel/kernel_mounter.h"

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

// To return would be to wait for the threads that hang.
[[noreturn]] void EndAsAKillWould(const std::string& what, const std::string& cause) {
  mooring::log::Error(what, {{"cause", cause}});
  ::_exit(1);
}

// What hangs in the kernel ends with the process only: so that ends at `until`, unless this is gone by then.
class Watchdog {
 public:
  Watchdog(std::chrono::steady_clock::time_point until, std::string cause)
      : thread_([this, until, cause = std::move(cause)](const std::stop_token& gone) {
          std::unique_lock<std::mutex> lock(mutex_);
          std::condition_variable_any().wait_until(lock, gone, until, [] { return false; });
          if (!gone.stop_requested()) EndAsAKillWould("ending before all is at its end", cause);
        }) {}

 private:
  std::mutex mutex_;
  std::jthread thread_;  // the last: it is joined first
};

int Run(const Config& config) {
  const sigset_t signals = BlockStopSignals();
  mooring::RaiseOpenFileLimit();
  ::umask(022);
  auto socket = ListeningSocket::Inherit();
  if (!socket.ok()) return Fail(socket.status());
  auto scraped = mooring::metrics::Listener::Bind(config.metrics_listen);
  if (!scraped.ok()) return Fail(scraped.status());
  mooring::KernelMounter kernel;
  const mooring::HeapTrimmer trimmer;
  const auto manager = Manager::Start(config, kernel);
  if (!manager.ok()) return Fail(manager.status());
  const auto server = Server::Start(**manager, *std::move(socket), *std::move(scraped));
  if (!server.ok()) return Fail(server.status());
  ::sd_notify(kKeepEnvironment, "READY=1");
  int signal = 0;
  ::sigwait(&signals, &signal);
  ::sd_notify(kKeepEnvironment, "STOPPING=1");
  mooring::log::Info("stopping", {{"signal", fmt::format("{}", signal)}});
  const auto until = std::chrono::steady_clock::now() + config.stop_timeout;
  const absl::Status stopped = (*server)->Stop(config.stop_timeout);
  if (!stopped.ok()) EndAsAKillWould("ending in the middle of a call", mooring::Message(stopped));
  // The calls of the API may have taken all of it, and those in the background have their grace, too.
  const auto least = std::chrono::steady_clock::now() + config.stop_grace + std::chrono::seconds(5);
  const Watchdog watchdog(std::max(until, least), "something under way in the background does not come to its end");
  (*manager)->Stop();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  mooring::BoundHeap();
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
