// mooring-plugin: a CSI driver on a unix socket. Flags in config.h, the parts in server.h.
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "base/host.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/status.h"
#include "base/version.h"
#include "metrics/listener.h"
#include "mounter/copy/freeze.h"
#include "mounter/kernel/kernel_mounter.h"
#include "plugin/process/config.h"
#include "plugin/process/handover.h"
#include "plugin/process/helper.h"
#include "plugin/process/run_as.h"
#include "plugin/process/server.h"
#include "plugin/process/state_dir.h"
#include "plugin/process/surroundings.h"
#include "plugin/process/waiting.h"

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
          mooring::PluginServer::Outside outside) {
  const auto server = mooring::PluginServer::Start(config, mounter, std::move(outside));
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

struct Prepared {
  mooring::Config config;
  mooring::Handover handover;
};

// The directories in which the plugin keeps something: made, checked, and the user's that it is going to work as.
absl::StatusOr<Prepared> Prepare(mooring::Config config) {
  MOORING_ASSIGN_OR_RETURN(const mooring::RealDirectory state,
                           mooring::MakeStateDir(config.state_dir, config.if_missing));
  MOORING_ASSIGN_OR_RETURN(mooring::Handover handover, mooring::Handover::Begin(state, config.user));
  MOORING_ASSIGN_OR_RETURN(mooring::FoundPools found, mooring::FindPools(config.pools, state.path, config.if_missing));
  MOORING_RETURN_IF_ERROR(mooring::OwnStateDir(state, found.paths(), handover));
  MOORING_RETURN_IF_ERROR(mooring::OwnPools(found, handover));
  config.state_dir = state.path;
  config.pools = std::move(found.pools);
  MOORING_RETURN_IF_ERROR(handover.Keep());
  return Prepared{std::move(config), std::move(handover)};
}

// Or, where they cannot be had, tells so on the socket until they can.
absl::StatusOr<Prepared> PrepareOrWait(const mooring::Config& asked, const sigset_t& signals) {
  absl::StatusOr<Prepared> prepared = Prepare(asked);
  if (prepared.ok()) return prepared;
  MOORING_RETURN_IF_ERROR(mooring::Handover(asked.user).GiveSocketDirectory(asked.socket_path));
  MOORING_RETURN_IF_ERROR(mooring::WaitUntilPrepared(asked, signals, prepared.status(), [&] {
    prepared = Prepare(asked);
    return prepared.status();
  }));
  return prepared;
}

// Whose directory that is, kubelet's and all drivers', it stays.
absl::Status CheckMayRegister(const mooring::Config& config) {
  const std::string& directory = config.kubelet_registration_dir;
  if (directory.empty() || config.user.is_root()) return absl::OkStatus();
  const int error =
      mooring::ErrnoAs(config.user, [&] { return ::access(directory.c_str(), W_OK | X_OK) == 0 ? 0 : errno; });
  if (error == 0) return absl::OkStatus();
  const absl::Status failed = mooring::ErrnoStatus(error, "register with kubelet in", directory);
  if (error != EACCES && error != EPERM) return failed;
  return mooring::FailedPrecondition(
      fmt::format("{}: user {}:{} may not write there: start the plugin without --user, or leave that to a registrar "
                  "beside it",
                  mooring::Message(failed), config.user.uid, config.user.gid));
}

void DecideSharedRoots(mooring::Config& config) {
  if (config.shared_roots != mooring::SharedRoots::kAuto) return;
  const bool own = mooring::HasOwnMountNamespace();
  config.shared_roots = own ? mooring::SharedRoots::kRequire : mooring::SharedRoots::kIgnore;
}

int Run(const mooring::Config& asked) {
  const sigset_t signals = BlockStopSignals();
  mooring::RaiseOpenFileLimit();
  ::umask(022);  // what is to be private is made so; a directory that is a volume is for its tasks
  // Before anything changes hands: what another plugin works with must not be taken from it, and what
  // is given away must be for somebody whom this process may become.
  absl::Status may_begin = mooring::CheckMayBecome(asked.user);
  if (may_begin.ok()) may_begin = mooring::Handover::CheckNotServed(asked.socket_path);
  if (!may_begin.ok()) return Fail(may_begin);
  absl::StatusOr<Prepared> prepared = PrepareOrWait(asked, signals);
  if (absl::IsCancelled(prepared.status())) return 0;
  if (absl::IsUnknown(prepared.status())) return 1;  // what to say was said
  if (!prepared.ok()) return Fail(prepared.status());
  mooring::Config& config = prepared->config;
  absl::Status sockets = prepared->handover.GiveSocketDirectory(config.socket_path);
  if (sockets.ok()) sockets = CheckMayRegister(config);
  if (!sockets.ok()) return Fail(sockets);
  DecideSharedRoots(config);
  auto scraped = mooring::metrics::Listener::Bind(config.metrics_listen);
  if (!scraped.ok()) return Fail(scraped.status());
  if (config.mounter == mooring::MounterKind::kInProcess) {
    mooring::KernelMounter mounter(config.mount_roots);
    return Serve(config, signals, mounter,
                 {.helper_health = [] { return absl::OkStatus(); },
                  .helper_restarts = [] { return std::uint64_t{0}; },
                  .helper_hanging = [] { return std::size_t{0}; },
                  .metrics = *std::move(scraped)});
  }
  const auto helper = mooring::StartHelperAndConfine(config, EndWithoutHelper);
  if (!helper.ok()) return Fail(helper.status());
  const mooring::HelperMounter& mounter = **helper;
  return Serve(config, signals, **helper,
               {.helper_health = [&mounter] { return mounter.Health(); },
                .helper_restarts = [&mounter] { return mounter.restarts(); },
                .helper_hanging = [&mounter] { return mounter.hanging(); },
                .metrics = *std::move(scraped)});
}

}  // namespace

int main(int argc, char** argv) {
  mooring::BoundHeap();
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
