// mooring-manager: manages volumes of any CSI plugin on this host. config.h has the flags, manager.h and server.h the
// objects.
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/host.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/process_end.h"
#include "base/server_start.h"
#include "base/status.h"
#include "manager/config.h"
#include "manager/manager.h"
#include "manager/migrate/program.h"
#include "manager/process/server.h"
#include "metrics/listener.h"
#include "mounter/kernel/kernel_mounter.h"
#include "mounter/mount/scratch.h"

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

constexpr std::chrono::seconds kLastSteps{5};  // for the steps of a stop that have no limit of their own

int Run(const Config& config) {
  const sigset_t signals = mooring::BlockStopSignals();
  mooring::RaiseOpenFileLimit();
  ::umask(022);
  auto socket = ListeningSocket::Inherit();
  if (!socket.ok()) return Fail(socket.status());
  auto scraped = mooring::metrics::Listener::Bind(config.metrics_listen);
  if (!scraped.ok()) return Fail(scraped.status());
  mooring::RemoveDeadScratches();
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
  mooring::EndProcessAfter(config.stop_timeout + kLastSteps, 1,
                           "mooring-manager: exiting before the stop is complete: calls do not end\n");
  const absl::Status stopped = (*server)->Stop(config.stop_timeout);
  if (!stopped.ok()) ExitAtOnce("exiting while calls still run", mooring::Message(stopped));
  // Work in the background gets its grace even if the calls of the API used up the time.
  const auto left = std::chrono::ceil<std::chrono::seconds>(until - std::chrono::steady_clock::now());
  mooring::EndProcessAfter(std::max(left, config.stop_grace + kLastSteps), 1,
                           "mooring-manager: exiting before the stop is complete: work in the background does not "
                           "end\n");
  (*manager)->Stop();
  return 0;  // and destroys the server and the manager
}

}  // namespace

int main(int argc, char** argv) {
  ::setenv("GRPC_VERBOSITY", "NONE", 0);  // its errors are in ours

  if (argc > 1 && std::string_view(argv[1]) == "migrate") return mooring::manager::RunMigrate(argc - 1, argv + 1);
  return mooring::RunServer(kProgram, argc, argv, mooring::manager::ParseConfig, Run);
}
