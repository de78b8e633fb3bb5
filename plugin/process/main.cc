// mooring-plugin: a CSI driver on a unix socket. Its flags are in plugin/config/config.h, its parts in server.h.
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/file/path.h"
#include "base/host.h"
#include "base/log.h"
#include "base/process_end.h"
#include "base/server_start.h"
#include "base/status.h"
#include "metrics/listener.h"
#include "mounter/copy/freeze.h"
#include "mounter/helper/helper_mounter.h"
#include "mounter/helper/spawner.h"
#include "mounter/kernel/kernel_mounter.h"
#include "mounter/mount/scratch.h"
#include "plugin/backends/registry.h"
#include "plugin/config/config.h"
#include "plugin/config/run_as.h"
#include "plugin/model/fs_types.h"
#include "plugin/model/volume_mount.h"
#include "plugin/process/confinement.h"
#include "plugin/process/directories.h"
#include "plugin/process/listen.h"
#include "plugin/process/placeholder_server.h"
#include "plugin/process/preflight.h"
#include "plugin/process/resolver.h"
#include "plugin/process/server.h"

namespace mooring {
namespace {

constexpr char kHelper[] = "mooring-mounter";
constexpr char kInstalled[] = "/usr/libexec/mooring";

absl::StatusOr<std::string> FindHelper() {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  for (const std::filesystem::path& directory : {self.parent_path(), std::filesystem::path(kInstalled)}) {
    std::string program = directory / kHelper;
    if (::access(program.c_str(), X_OK) == 0) return program;
  }
  return FailedPrecondition("{} is neither beside {} nor in {}: install it there, or use --mounter=in-process", kHelper,
                            self.string(), kInstalled);
}

PoolAccess AccessOf(const std::vector<PoolConfig>& pools) {
  PoolAccess access;
  for (const PoolConfig& pool : pools) TypeOf(pool.kind).allow(pool, access);
  return access;
}

HelperPolicy PolicyFor(const Config& config, const PoolAccess& access, const std::string& socket_directory) {
  HelperPolicy policy = {.roots = config.mount_roots,
                         .sources = access.image_directories,
                         .label_prefix = std::string(kLabelPrefix),
                         .forbidden_trees = {config.state_dir},
                         .forbidden_places = {socket_directory},
                         .volume_directories = access.volume_directories};
  if (!config.kubelet_registration_dir.empty()) policy.forbidden_places.push_back(config.kubelet_registration_dir);
  policy.subvolume_pools = access.subvolume_pools;
  policy.sized_pools = access.sized_pools;
  policy.most_memory = access.most_memory;
  policy.device_links = access.device_links;
  policy.lvm_pools = access.lvm_pools;
  policy.encrypted_pools = access.encrypted_pools;
  policy.fs_types = config.fs_types;
  for (const PoolConfig& pool : config.pools) {
    if (TypeOf(pool.kind).own_mount == nullptr) continue;
    const OwnMount own = TypeOf(pool.kind).own_mount(pool);
    policy.exports.push_back(ExportText(own.request));
    policy.exports.push_back(ExportText(own.calls));
  }
  return policy;
}

std::vector<std::string> ServersOf(const Config& config) {
  std::vector<std::string> servers;
  for (const PoolConfig& pool : config.pools) {
    if (TypeOf(pool.kind).own_mount != nullptr) servers.push_back(TypeOf(pool.kind).own_mount(pool).server);
  }
  return servers;
}

// Starts the mount helper, mooring-mounter, from the directory of this program or from /usr/libexec/mooring. Then gives
// up the privileges of this process (plugin/process/confinement.h), which must have one thread. `config` comes from
// PrepareDirectories. `lost`: see HelperMounter.
absl::StatusOr<std::unique_ptr<HelperMounter>> StartHelperAndConfine(const Config& config, std::function<void()> lost) {
  MOORING_ASSIGN_OR_RETURN(const std::string program, FindHelper());
  const std::string socket_directory(ParentOf(config.socket_path));
  const PoolAccess access = AccessOf(config.pools);
  const HelperPolicy policy = PolicyFor(config, access, socket_directory);
  MOORING_ASSIGN_OR_RETURN(HelperSpawner spawner,
                           HelperSpawner::Start(program, {policy, config.log_level, config.log_format}));
  std::vector<std::string> directories = access.image_directories;
  directories.insert(directories.end(), access.volume_directories.begin(), access.volume_directories.end());
  // Landlock ignores a rule for a mount point, and a look at the mount of a dead server would hang.
  std::vector<std::string> linked;
  for (const PoolConfig& pool : config.pools) {
    if (TypeOf(pool.kind).own_mount == nullptr) continue;
    linked.emplace_back(ParentOf(pool.path));
    std::replace(directories.begin(), directories.end(), pool.path, linked.back());
  }
  MOORING_RETURN_IF_ERROR(Confine({.state_dir = config.state_dir,
                                   .socket_directory = socket_directory,
                                   .registration_directory = config.kubelet_registration_dir,
                                   .pools = directories,
                                   .linked = linked,
                                   .device_links = access.link_directories,
                                   .key_files = access.key_files},
                                  config.user));
  return HelperMounter::Start(std::move(spawner), std::move(lost));
}

}  // namespace
}  // namespace mooring

namespace {

constexpr char kProgram[] = "mooring-plugin";

// For the steps of a stop that have no limit of their own: the end of the mount helper and of gRPC's threads.
constexpr std::chrono::seconds kLastSteps{5}, kThawAndLastSteps{10};

int Fail(const absl::Status& status) { return mooring::FailProgram(kProgram, status); }

// Without its mount helper the plugin cannot mount anything. It ends, and its service manager starts it again.
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
  mooring::EndProcessAfter(config.stop_timeout + kThawAndLastSteps, 1,
                           "mooring-plugin: ending before the stop is complete: a thread does not end\n");
  const absl::Status stopped = (*server)->Stop(config.stop_timeout);
  if (stopped.ok()) {
    const int exit_status = helper_lost ? 1 : 0;
    mooring::EndProcessAfter(kLastSteps, exit_status,
                             "mooring-plugin: all calls have ended, and a thread has not: ending without it\n");
    return exit_status;  // and destroys the server
  }
  mooring::ThawAllForGood();  // needed if the mounter is in this process
  mooring::log::Error("ending in the middle of a call", {{"cause", mooring::Message(stopped)}});
  ::_exit(1);  // a return would wait for the threads of those calls
}

// If the directories cannot be prepared, a placeholder server reports the reason until they can.
absl::StatusOr<mooring::Config> PrepareOrWait(const mooring::Config& asked, const sigset_t& signals) {
  absl::StatusOr<mooring::Config> prepared = mooring::PrepareDirectories(asked);
  if (prepared.ok()) return prepared;
  MOORING_RETURN_IF_ERROR(mooring::PrepareSocketDirectory(asked));
  MOORING_RETURN_IF_ERROR(mooring::WaitUntilPrepared(asked, signals, prepared.status(), [&] {
    prepared = mooring::PrepareDirectories(asked);
    return prepared.status();
  }));
  return prepared;
}

// Kubelet and all drivers share that directory, so the plugin does not change its owner.
absl::Status CheckMayRegister(const mooring::Config& config) {
  const std::string& directory = config.kubelet_registration_dir;
  if (directory.empty() || config.user.is_root()) return absl::OkStatus();
  const int error =
      mooring::ErrnoAs(config.user, [&] { return ::access(directory.c_str(), W_OK | X_OK) == 0 ? 0 : errno; });
  if (error == 0) return absl::OkStatus();
  const absl::Status failed = mooring::ErrnoStatus(error, "register with kubelet in", directory);
  if (error != EACCES && error != EPERM) return failed;
  return mooring::FailedPrecondition(
      "{}: user {}:{} may not write there: start the plugin without --user, or leave that to a registrar beside it",
      mooring::Message(failed), config.user.uid, config.user.gid);
}

void DecideSharedRoots(mooring::Config& config) {
  if (config.shared_roots != mooring::SharedRoots::kAuto) return;
  const bool own = mooring::HasOwnMountNamespace();
  config.shared_roots = own ? mooring::SharedRoots::kRequire : mooring::SharedRoots::kIgnore;
}

// Images, records and the log are files.
void WarnOfFileSizeLimit() {
  const std::optional<std::uint64_t> most = mooring::RaiseFileSizeLimit();
  if (!most) return;
  mooring::log::Warning("files may not grow beyond a limit (ulimit -f, LimitFSIZE=), and no image volume either",
                        {{"bytes", fmt::format("{}", *most)}});
}

int Run(const mooring::Config& asked) {
  const sigset_t signals = mooring::BlockStopSignals();
  mooring::RaiseOpenFileLimit();
  WarnOfFileSizeLimit();
  ::umask(022);  // private files are made with their own mode; directory volumes are for tasks
  // Before a directory is made for that user.
  if (const absl::Status may = mooring::CheckMayBecome(asked.user); !may.ok()) return Fail(may);
  absl::StatusOr<mooring::Config> prepared = PrepareOrWait(asked, signals);
  if (absl::IsCancelled(prepared.status())) return 0;
  if (absl::IsUnknown(prepared.status())) return 1;  // the placeholder server printed the error
  if (!prepared.ok()) return Fail(prepared.status());
  mooring::Config& config = *prepared;
  mooring::AllowOtherFsTypes(config.fs_types);
  absl::Status sockets = mooring::PrepareSocketDirectory(config);
  if (sockets.ok()) sockets = CheckMayRegister(config);
  if (!sockets.ok()) return Fail(sockets);
  if (const absl::Status roots = mooring::ResolveMountRoots(config); !roots.ok()) return Fail(roots);
  DecideSharedRoots(config);
  auto resolver = mooring::Resolver::Start(mooring::ServersOf(config), config.user);
  if (!resolver.ok()) return Fail(resolver.status());
  auto scraped = mooring::metrics::Listener::Bind(config.metrics_listen);
  if (!scraped.ok()) return Fail(scraped.status());
  if (config.mounter == mooring::MounterKind::kInProcess) {
    mooring::RemoveDeadScratches();
    mooring::KernelMounter mounter(config.mount_roots);
    return Serve(config, signals, mounter,
                 {.helper_health = [] { return absl::OkStatus(); },
                  .helper_restarts = [] { return std::uint64_t{0}; },
                  .helper_hanging = [] { return std::size_t{0}; },
                  .metrics = *std::move(scraped),
                  .resolver = resolver->get()});
  }
  const auto helper = mooring::StartHelperAndConfine(config, EndWithoutHelper);
  if (!helper.ok()) return Fail(helper.status());
  const mooring::HelperMounter& mounter = **helper;
  return Serve(config, signals, **helper,
               {.helper_health = [&mounter] { return mounter.Health(); },
                .helper_restarts = [&mounter] { return mounter.restarts(); },
                .helper_hanging = [&mounter] { return mounter.hanging(); },
                .metrics = *std::move(scraped),
                .resolver = resolver->get()});
}

}  // namespace

int main(int argc, char** argv) { return mooring::RunServer(kProgram, argc, argv, mooring::ParseConfig, Run); }
