// mooring-manager: manages volumes of any CSI plugin on this host. config.h has the flags, manager.h and server.h the
// objects.
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "base/host.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/server_start.h"
#include "base/status.h"
#include "manager/config.h"
#include "manager/manager.h"
#include "manager/migrate/program.h"
#include "manager/process/server.h"
#include "metrics/listener.h"
#include "mounter/kernel/kernel_mounter.h"

namespace {

using mooring::manager::Config;
using mooring::manager::ListeningSocket;
using mooring::manager::Manager;
using mooring::manager::Server;

constexpr int kKeepEnvironment = 0;

constexpr char kProgram[] = "mooring-manager";

int Fail(const absl::Status& status) { return mooring::FailProgram(kProgram, status); }

// Ends without destructors, which would wait for threads that hang.
[[noreturn]] void ExitAtOnce(const std::string& what, const std::string& cause) {
  mooring::log::Error(what, {{"cause", cause}});
  ::_exit(1);
}

// Ends the process at `until`, unless it is destroyed before. A thread that hangs in the kernel ends only so.
class Watchdog {
 public:
  Watchdog(std::chrono::steady_clock::time_point until, std::string cause)
      : thread_([this, until, cause = std::move(cause)](const std::stop_token& gone) {
          std::unique_lock<std::mutex> lock(mutex_);
          std::condition_variable_any().wait_until(lock, gone, until, [] { return false; });
          if (!gone.stop_requested()) ExitAtOnce("exiting before the stop is complete", cause);
        }) {}

 private:
  std::mutex mutex_;
  std::jthread thread_;  // last member, so joined first
};

int Run(const Config& config) {
  const sigset_t signals = mooring::BlockStopSignals();
  ::signal(SIGPIPE, SIG_IGN);  // a write to a closed connection fails with EPIPE instead
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
  if (!stopped.ok()) ExitAtOnce("exiting while calls still run", mooring::Message(stopped));
  // Work in the background gets its grace even if the calls of the API used up the time.
  const auto least = std::chrono::steady_clock::now() + config.stop_grace + std::chrono::seconds(5);
  const Watchdog watchdog(std::max(until, least), "work in the background does not end");
  (*manager)->Stop();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  ::setenv("GRPC_VERBOSITY", "NONE", 0);  // its errors are in ours

  if (argc > 1 && std::string_view(argv[1]) == "migrate") return mooring::manager::RunMigrate(argc - 1, argv + 1);
  return mooring::RunServer(kProgram, argc, argv, mooring::manager::ParseConfig, Run);
}
