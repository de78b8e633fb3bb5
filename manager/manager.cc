#include "manager/manager.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/host.h"
#include "base/log.h"
#include "base/status.h"
#include "base/version.h"
#include "manager/csi/grpc_channel.h"
#include "manager/csi/recorded_channel.h"
#include "manager/host_setup.h"
#include "manager/launch/container_launcher.h"
#include "manager/launch/exec_launcher.h"
#include "manager/state/boot.h"
#include "manager/state/sqlite_state.h"

namespace mooring::manager {
namespace {

constexpr std::chrono::seconds kRound{30};       // between two looks of the housekeeper at everything
constexpr std::chrono::seconds kResumeTime{30};  // what one plugin may take of a round
constexpr std::chrono::minutes kVolumesTime{5};  // for plugins to come back that have a volume half made

// (k) 5: what is declared is expected, in each role it has or had.
std::vector<PluginLoop::Expected> ExpectedOf(const Supervisor& supervisor) {
  std::vector<PluginLoop::Expected> expected;
  for (const PluginRecord& plugin : supervisor.Declared()) {
    PluginLoop::Expected of_plugin{plugin.name};
    for (const PluginType type : plugin.types)
      (type == PluginType::kNode ? of_plugin.nodes : of_plugin.controllers) = 1;
    if (plugin.types.empty()) of_plugin.nodes = 1;  // what it is shows when it is there
    expected.push_back(std::move(of_plugin));
  }
  return expected;
}

Supervisor::Settings SupervisingOf(const Config& config) {
  Supervisor::Settings settings;
  settings.host = config.host;
  settings.socket_root = config.runtime_dir;
  settings.root = config.root;
  return settings;
}

absl::Status AssemblePlugins(Parts& parts) {
  const Config& config = parts.config;
  MOORING_ASSIGN_OR_RETURN(parts.registry, Registry::Open(*parts.state, config.host));
  parts.exec_launcher = std::make_unique<ExecLauncher>();
  MOORING_ASSIGN_OR_RETURN(const std::string id, KeepManagerId(config.state_dir));
  parts.container_launcher = std::make_unique<ContainerLauncher>(
      config.engine, ContainerOwner{.id = id, .host = config.host, .socket_root = config.runtime_dir});
  parts.supervisor =
      std::make_unique<Supervisor>(parts.store, *parts.registry, parts.events, parts.channels.connector(),
                                   *parts.exec_launcher, *parts.container_launcher, SupervisingOf(config));
  parts.plugins = std::make_unique<PluginLoop>(
      *parts.registry, parts.events, parts.channels.connector(), [&parts] { return ExpectedOf(*parts.supervisor); },
      PluginLoop::Settings());
  return absl::OkStatus();
}

absl::Status AssembleVolumes(Parts& parts, Mounts& kernel) {
  const Config& config = parts.config;
  MOORING_ASSIGN_OR_RETURN(parts.journal, MountJournal::Open(parts.store, config.host));
  const RetryPolicy retry{.stop = parts.stop.get_token()};
  VolumeManager::Settings mounting;
  mounting.root = config.root;
  mounting.retry = retry;
  parts.volume_manager =
      std::make_unique<VolumeManager>(*parts.plugins, kernel, *parts.journal, parts.events, mounting);
  parts.volumes = std::make_unique<Volumes>(parts.store, *parts.plugins, *parts.volume_manager, parts.controller_locks,
                                            parts.events, retry);
  Claims::Settings claiming;
  claiming.host = config.host;
  claiming.retry = retry;
  parts.claims = std::make_unique<Claims>(parts.store, *parts.plugins, parts.controller_locks, parts.events, claiming);
  Attachments::Settings attaching;
  attaching.host = config.host;
  parts.attachments =
      std::make_unique<Attachments>(*parts.journal, *parts.claims, *parts.volume_manager, parts.events, attaching);
  return absl::OkStatus();
}

// Whoever has it mounted still takes it down, and the claim goes with that.
bool IsMountedHere(const Parts& parts, const Claim& claim) {
  const std::vector<AttachmentRecord> records = parts.journal->Of(claim.volume);
  return std::any_of(records.begin(), records.end(),
                     [&](const AttachmentRecord& record) { return AreOfOneClaim(record, claim); });
}

// A full disk keeps nobody from being restored: Docker's front end stores the boot, too, before it attaches anything.
absl::Status RestoreAttachments(Parts& parts) {
  MOORING_ASSIGN_OR_RETURN(parts.boot, BootId());
  MOORING_ASSIGN_OR_RETURN(const bool booted, IsFirstOfBoot(*parts.state, parts.config.host, parts.boot));
  parts.attachments->Restore(
      [&](const AttachmentRecord& record) { return booted && IsAttachedForDocker(record, parts.config.state_dir); });
  const absl::Status kept = KeepBoot(*parts.state, parts.config.host, parts.boot);
  if (!kept.ok()) log::Warning("the boot is not stored, and Docker gets no volume before", {{"cause", Message(kept)}});
  return absl::OkStatus();
}

CsiConnector ConnectorFor(ManagerMetrics* metrics) {
  const CsiConnector connect = [](const std::string& socket_path, const std::string&) {
    return ConnectCsi(socket_path);
  };
  if (metrics == nullptr) return connect;
  return Recorded(connect, [metrics](const std::string& plugin) -> CallRecorder& { return metrics->plugin(plugin); });
}

}  // namespace

Parts::Parts(Config checked, std::unique_ptr<State> opened)
    : config(std::move(checked)),
      metrics(config.metrics_listen ? std::make_unique<ManagerMetrics>(*this) : nullptr),
      channels(ConnectorFor(metrics.get())),
      state(std::move(opened)) {
  if (!metrics) return;
  state->RecordCommits([this](absl::StatusCode code, Clock::duration took) { metrics->NoteCommit(code, took); });
}

absl::StatusOr<std::unique_ptr<Manager>> Manager::Start(const Config& asked, Mounts& kernel) {
  MOORING_ASSIGN_OR_RETURN(Config config, MakeDirectories(asked));
  MOORING_ASSIGN_OR_RETURN(std::unique_ptr<State> state, OpenSqliteState(config.state_dir + "/state.db", [&] {
                             return CheckBeginsEmpty(config.state_dir);
                           }));
  MOORING_ASSIGN_OR_RETURN(config.host, KeepHostName(config.state_dir, config.host));
  MOORING_RETURN_IF_ERROR(ShareRoot(config.root, kernel));
  auto parts = std::make_unique<Parts>(std::move(config), std::move(state));
  MOORING_RETURN_IF_ERROR(AssemblePlugins(*parts));
  MOORING_RETURN_IF_ERROR(AssembleVolumes(*parts, kernel));
  std::unique_ptr<Manager> manager(new Manager(std::move(parts)));
  MOORING_RETURN_IF_ERROR(manager->Begin());
  return manager;
}

Manager::Manager(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

Manager::~Manager() { Stop(); }

absl::Status Manager::Begin() {
  parts_->plugins->OnHealth([this](const PluginHealth& health) {
    const std::lock_guard<std::mutex> lock(mutex_);
    PluginHealth& news = news_[health.plugin];
    news = {health.plugin, health.healthy, health.changed || news.changed};
    changed_.notify_all();
  });
  MOORING_RETURN_IF_ERROR(parts_->supervisor->Start());
  MOORING_RETURN_IF_ERROR(RestoreAttachments(*parts_));
  resumer_ = std::thread([this] { parts_->volumes->Resume(Clock::now() + kVolumesTime); });
  follower_ = std::thread(&Manager::FollowHealth, this);
  housekeeper_ = std::thread(&Manager::KeepHouse, this);
  return absl::OkStatus();
}

void Manager::FollowHealth() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stopping_ || !news_.empty(); });
    if (stopping_) return;
    const std::map<std::string, PluginHealth> news = std::exchange(news_, {});
    lock.unlock();
    for (const auto& [plugin, health] : news) {
      if (health.changed) parts_->claims->PluginHealthChanged(plugin);
      if (!health.healthy) continue;
      owed_.Push(plugin, [this, name = plugin] { parts_->claims->Resume(name, Clock::now() + kResumeTime); });
    }
    lock.lock();
  }
}

void Manager::KeepHouse() {
  const auto is_mounted = [this](const Claim& claim) { return IsMountedHere(*parts_, claim); };
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stopping_) {
    lock.unlock();
    parts_->claims->Resume("", Clock::now() + kResumeTime);
    parts_->claims->Collect(is_mounted, Clock::now() + kResumeTime);
    lock.lock();
    changed_.wait_for(lock, kRound, [this] { return stopping_; });
  }
}

// What waits for a plugin is woken last: by then it sees that the manager stops, and does not try again.
void Manager::BeginStop() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (std::exchange(stopping_, true)) return;
    changed_.notify_all();
  }
  parts_->stop.request_stop();
  parts_->attachments->BeginStop();
  parts_->volume_manager->Stop();
  parts_->volumes->Stop();
  parts_->controller_locks.Stop(Stopping());
  parts_->supervisor->BeginStop();
  parts_->plugins->BeginStop();
  closer_ = std::thread(&Manager::CloseChannelsLater, this);
}

void Manager::CloseChannelsLater() {
  std::unique_lock<std::mutex> lock(mutex_);
  if (changed_.wait_for(lock, parts_->config.stop_grace, [this] { return stopped_; })) return;
  lock.unlock();
  parts_->channels.CloseAll();
}

void Manager::Stop() {
  BeginStop();
  parts_->events.Close();
  parts_->state->EndWatches();
  parts_->registry->Close();
  parts_->supervisor->Stop();
  parts_->plugins->Stop();
  parts_->attachments->Stop();
  for (std::thread* thread : {&resumer_, &follower_, &housekeeper_}) {
    if (thread->joinable()) thread->join();
  }
  owed_.Stop();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopped_ = true;
    changed_.notify_all();
  }
  if (closer_.joinable()) closer_.join();
}

}  // namespace mooring::manager
