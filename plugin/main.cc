// mooring-plugin: a CSI driver on a unix socket. Flags in config.h, the parts in server.h.
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "base/host.h"
#include "base/log.h"
#include "base/status.h"
#include "base/version.h"
#include "mounter/freeze.h"
#include "mounter/kernel_mounter.h"
#include "plugin/config.h"
#include "plugin/helper.h"
#include "plugin/server.h"
#include "plugin/state_dir.h"

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

// Nothing can be mounted any more: whoever started this starts it again.
std::atomic<bool> helper_lost{false};

void EndWithoutHelper() {
  helper_lost = true;
  ::kill(::getpid(), SIGTERM);
}

int Serve(const mooring::Config& config, const sigset_t& signals, mooring::Mounter& mounter,
          std::function<absl::Status()> health) {
  const auto server = mooring::PluginServer::Start(config, mounter, std::move(health));
  if (!server.ok()) return Fail(server.status());
  int signal = 0;
  ::sigwait(&signals, &signal);
  mooring::log::Info("stopping", {{"signal", fmt::format("{}", signal)}});
  const absl::Status stopped = (*server)->Stop(config.stop_timeout);
  if (stopped.ok()) return helper_lost ? 1 : 0;
  mooring::ThawAllForGood();  // where the mounter is in this process
  mooring::log::Error("ending in the middle of a call", {{"cause", mooring::Message(stopped)}});
  ::_exit(1);  // to return would be to wait for the threads of those calls
}

int Run(mooring::Config config) {
  const sigset_t signals = BlockStopSignals();
  mooring::RaiseOpenFileLimit();
  ::umask(022);  // what is to be private is made so; a directory that is a volume is for its tasks
  absl::StatusOr<std::string> state_dir = mooring::MakeStateDir(config.state_dir);
  if (!state_dir.ok()) return Fail(state_dir.status());
  config.state_dir = *std::move(state_dir);
  absl::StatusOr<std::vector<mooring::PoolConfig>> pools = mooring::PreparePools(config.pools, config.state_dir);
  if (!pools.ok()) return Fail(pools.status());
  config.pools = *std::move(pools);
  if (config.mounter == mooring::MounterKind::kInProcess) {
    mooring::KernelMounter mounter(config.mount_roots);
    return Serve(config, signals, mounter, [] { return absl::OkStatus(); });
  }
  const auto helper = mooring::StartHelperAndConfine(config, EndWithoutHelper);
  if (!helper.ok()) return Fail(helper.status());
  return Serve(config, signals, **helper, [&helper] { return (*helper)->Health(); });
}

}  // namespace

int main(int argc, char** argv) {
  // Debian's abseil is built to look for deadlocks at every lock, a tenth of the time of a call.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
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
