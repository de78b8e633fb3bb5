#include "manager/manager.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/host.h"
#include "base/log.h"
#include "base/status.h"
#include "manager/csi/connectors.h"
#include "manager/host_setup.h"
#include "manager/launch/container_launcher.h"
#include "manager/launch/exec_launcher.h"
#include "manager/state/host_notes.h"

namespace mooring::manager {
namespace {

constexpr std::chrono::seconds kRound{30};        // between two rounds of the housekeeping
constexpr std::chrono::seconds kSharedRound{10};  // with a shared state, which may be away for a moment
constexpr std::chrono::seconds kReleaseTime{30};  // for an unused claim

Supervisor::Settings SupervisorSettings(const Config& config) {
  Supervisor::Settings settings;
  settings.host = config.host;
  settings.socket_root = config.runtime_dir;
  settings.root = config.root;
  return settings;
}

absl::Status AssemblePlugins(Components& components) {
  const Config& config = components.config;
  MOORING_ASSIGN_OR_RETURN(components.plugins, PluginSet::Open(*components.local, config.host, components.events,
                                                               components.channels.connector(), components.work));
  components.exec_launcher = std::make_unique<ExecLauncher>();
  MOORING_ASSIGN_OR_RETURN(const std::string id, KeepManagerId(config.state_dir));
  components.container_launcher = std::make_unique<ContainerLauncher>(
      config.engine, ContainerOwner{.id = id, .host = config.host, .socket_root = config.runtime_dir});
  components.supervisor = std::make_unique<Supervisor>(
      components.store, *components.plugins, components.events, components.channels.connector(), components.work,
      *components.exec_launcher, *components.container_launcher, SupervisorSettings(config));
  components.cluster = MakeCluster({.config = config,
                                    .shared = components.shared,
                                    .local = *components.local,
                                    .store = components.store,
                                    .events = components.events,
                                    .work = components.work,
                                    .plugins = *components.plugins},
                                   components.others != nullptr);
  return absl::OkStatus();
}

// A call is begun only while the lease of this host surely lasts: then no other host can have taken over its claims.
absl::Status CheckLease(Lease& lease) {
  if (Clock::now() < lease.ValidUntil()) return absl::OkStatus();
  return Unavailable(
      "this host has no lease in the shared state, so it attaches nothing: try again when the state answers");
}

// A mount without an attachment may still be written to.
bool HasUnknownMount(Components& components, const Claim& claim) {
  const auto volume = components.store.GetVolume(claim.volume);
  if (!volume.ok()) return !absl::IsNotFound(volume.status());
  const auto mounts = components.volume_manager->FindUnknownMounts(*volume);
  return !mounts.ok() || !mounts->empty();
}

absl::Status AssembleVolumes(Components& components, Mounts& kernel) {
  const Config& config = components.config;
  MOORING_ASSIGN_OR_RETURN(components.journal, AttachmentJournal::Open(components.store, config.host));
  const RetryPolicy retry{.stop = components.stop.get_token(),
                          .may_call = [&lease = components.shared.lease()] { return CheckLease(lease); }};
  VolumeManager::Settings mounting;
  mounting.root = config.root;
  mounting.boot = components.boot;
  mounting.retry = retry;
  components.volume_manager =
      std::make_unique<VolumeManager>(*components.plugins, kernel, *components.journal, components.events, mounting);
  components.snapshots =
      std::make_unique<Snapshots>(components.store, components.cluster->plugins(), components.cluster->hosts(),
                                  components.controller_locks, components.events, components.work, retry);
  components.volumes = std::make_unique<Volumes>(
      components.store, components.cluster->plugins(), components.cluster->hosts(), *components.volume_manager,
      *components.snapshots, components.controller_locks, components.events, components.work, retry);
  Claims::Settings claiming;
  claiming.retry = retry;
  claiming.is_mounted = [&components](const Claim& claim) {
    return components.journal->IsUsed(claim) || HasUnknownMount(components, claim);
  };
  claiming.is_still_mounted = [&components](const Claim& claim) {
    return components.attachments->HasMountFor(claim) || HasUnknownMount(components, claim);
  };
  claiming.check_mounts = [&components](const VolumeKey& volume) {
    return components.attachments->CheckNoStaleMount(volume);
  };
  components.claims =
      std::make_unique<Claims>(components.store, components.cluster->plugins(), components.cluster->hosts(),
                               components.controller_locks, components.events, components.work, claiming);
  Attachments::Settings attaching;
  attaching.host = config.host;
  attaching.may_attach = [&components] { return components.cluster->CheckRejoined(); };
  components.attachments =
      std::make_unique<Attachments>(*components.journal, *components.claims, *components.volume_manager,
                                    components.events, components.work, attaching);
  if (components.counters) {
    components.metrics = std::make_unique<MetricsPage>(MetricsPage::Sources{.counters = *components.counters,
                                                                            .plugins = *components.plugins,
                                                                            .supervisor = *components.supervisor,
                                                                            .store = components.store,
                                                                            .cluster = *components.cluster,
                                                                            .journal = *components.journal,
                                                                            .attachments = *components.attachments,
                                                                            .work = components.work});
  }
  return absl::OkStatus();
}

// A full disk does not stop the restoration: the Docker driver stores the boot id again before it attaches anything.
void RestoreAttachments(Components& components, bool booted) {
  components.attachments->Restore([&](const AttachmentRecord& record) {
    return booted && (record.until_reboot || IsAttachedForDocker(record, components.config.state_dir));
  });
  const absl::Status kept = KeepBoot(*components.local, components.config.host, components.boot);
  if (!kept.ok())
    log::Warning("the boot id cannot be stored; mounts for Docker fail until it can", {{"cause", Message(kept)}});
}

CsiConnector ConnectorFor(ManagerCounters* counters) {
  const CsiConnector connect = [](const std::string& socket_path, const std::string&) {
    return ConnectCsi(socket_path);
  };
  if (counters == nullptr) return connect;
  return Recorded(connect, [counters](const std::string& plugin) -> CallRecorder& { return counters->plugin(plugin); });
}

}  // namespace

Components::Components(Config checked, std::string boot_id, std::unique_ptr<State> local_state,
                       std::unique_ptr<State> shared_with_others)
    : config(std::move(checked)),
      boot(std::move(boot_id)),
      counters(config.metrics_listen ? std::make_unique<ManagerCounters>() : nullptr),
      channels(ConnectorFor(counters.get())),
      local(std::move(local_state)),
      others(std::move(shared_with_others)),
      shared(others == nullptr ? *local : *others) {
  if (!counters) return;
  shared.RecordCommits([this](absl::StatusCode code, Clock::duration took) { counters->NoteCommit(code, took); });
}

absl::StatusOr<std::unique_ptr<Manager>> Manager::Start(const Config& asked, Mounts& kernel) {
  MOORING_ASSIGN_OR_RETURN(Config config, MakeDirectories(asked));
  MOORING_ASSIGN_OR_RETURN(std::unique_ptr<State> local, OpenLocalState(config.state_dir));
  MOORING_ASSIGN_OR_RETURN(config.host, KeepHostName(config.state_dir, config.host));
  MOORING_ASSIGN_OR_RETURN(std::unique_ptr<State> others, OpenSharedState(config, *local));
  MOORING_RETURN_IF_ERROR(ShareRoot(config.root, kernel));
  MOORING_ASSIGN_OR_RETURN(std::string boot, BootId());
  auto components =
      std::make_unique<Components>(std::move(config), std::move(boot), std::move(local), std::move(others));
  MOORING_RETURN_IF_ERROR(AssemblePlugins(*components));
  MOORING_RETURN_IF_ERROR(AssembleVolumes(*components, kernel));
  std::unique_ptr<Manager> manager(new Manager(std::move(components)));
  MOORING_RETURN_IF_ERROR(manager->Begin());
  return manager;
}

Manager::Manager(std::unique_ptr<Components> components)
    : components_(std::move(components)),
      health_(components_->work, {.kind = "health", .is_routine = true}),
      housekeeping_(components_->work, {.kind = "housekeeping", .is_routine = true}) {}

Manager::~Manager() { Stop(); }

absl::Status Manager::Begin() {
  components_->plugins->OnHealth([this](const PluginHealth& health) {
    HealthChanged(health.plugin, health.healthy, health.changed);
    components_->cluster->PluginsChanged();
  });
  MOORING_RETURN_IF_ERROR(components_->supervisor->Start());
  // Before Docker's first call, which notes the boot.
  MOORING_ASSIGN_OR_RETURN(const bool booted,
                           IsFirstOfBoot(*components_->local, components_->config.host, components_->boot));
  components_->cluster->Begin(
      {.claims = *components_->claims,
       .volumes = *components_->volumes,
       .attachments = *components_->attachments,
       .journal = *components_->journal,
       .on_other_controllers = [this](const std::string& plugin) { HealthChanged(plugin, true, true); },
       .restore = [this, booted] { Restore(booted); },
       .on_checked = [this] { KeepHouseNow(); }});  // releases that the end of the lease has cut short
  KeepHouseNow();
  return absl::OkStatus();
}

void Manager::Restore(bool booted) {
  RestoreAttachments(*components_, booted);
  const auto resume = [this] { return components_->volumes->Resume(components_->config.host); };
  housekeeping_.Push({.key = "interrupted volumes", .attempt = resume});
}

// Waits for nothing.
void Manager::HealthChanged(const std::string& plugin, bool healthy, bool has_changed) {
  if (has_changed) {
    const auto attempt = [this, plugin] {
      components_->claims->PluginHealthChanged(plugin);
      return absl::OkStatus();
    };
    health_.Push({.key = plugin, .attempt = attempt});
  }
  if (healthy) components_->work.TryNow(plugin);
}

void Manager::KeepHouseNow() {
  housekeeping_.Push({.key = "round", .attempt = [this] { return KeepHouse(); }});
}

// Other hosts report that allocations of this one are gone, and a commit whose answer was lost may have left a claim.
// So it looks now and then.
absl::Status Manager::KeepHouse() {
  const bool is_shared = components_->cluster->hosts().is_shared();
  housekeeping_.Push({.key = "round", .attempt = [this] { return KeepHouse(); }}, is_shared ? kSharedRound : kRound);
  const auto claims = components_->claims->Resume();
  if (claims.ok() && is_shared) ReleaseUnused(*claims);
  ReportUnreadable();
  return absl::OkStatus();
}

// Damaged records are left out, so somebody has to learn of them.
void Manager::ReportUnreadable() {
  for (const std::string& why : components_->store.WhyUnreadable()) {
    if (told_.insert(why).second) components_->events.Add({.bad = true, .kind = "record", .text = why});
  }
}

void Manager::ReleaseUnused(const std::vector<Claim>& claims) {
  if (!components_->cluster->CheckRejoined().ok()) return;
  for (const Claim& claim : claims) {
    if (claim.kept || !IsBeforeNodeStep(claim) || components_->journal->IsUsed(claim)) continue;
    const absl::Status released = ReleaseUnused(claim);
    const bool is_news = absl::IsFailedPrecondition(released) && told_.insert(Message(released)).second;
    if (!is_news) continue;
    components_->events.Add({.bad = true,
                             .kind = "claim",
                             .volume = claim.volume,
                             .allocation = claim.allocation,
                             .text = Message(released)});
  }
}

absl::Status Manager::ReleaseUnused(const Claim& claim) {
  MOORING_ASSIGN_OR_RETURN(const Volume volume, components_->store.GetVolume(claim.volume));
  return components_->attachments->ReleaseUnused(claim, volume, Clock::now() + kReleaseTime);
}

// Waits for plugins end last, so that their callers see the stop and do not retry.
void Manager::BeginStop() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (std::exchange(stopping_, true)) return;
    changed_.notify_all();
  }
  components_->stop.request_stop();
  components_->work.BeginStop();
  components_->attachments->BeginStop();
  components_->volume_manager->Stop();
  components_->controller_locks.Stop(Stopping());
  components_->supervisor->BeginStop();
  components_->cluster->BeginStop();
  components_->plugins->BeginStop();
  try {
    closer_ = std::thread(&Manager::CloseChannelsLater, this);
  } catch (const std::system_error&) {  // the limit of processes is reached: running calls get no grace
    components_->channels.CloseAll();
  }
}

void Manager::CloseChannelsLater() {
  std::unique_lock<std::mutex> lock(mutex_);
  if (changed_.wait_for(lock, components_->config.stop_grace, [this] { return stopped_; })) return;
  lock.unlock();
  components_->channels.CloseAll();
}

void Manager::Stop() {
  BeginStop();
  components_->events.Close();
  components_->shared.EndWatches();
  components_->supervisor->Stop();
  components_->plugins->Stop();
  components_->cluster->Stop();
  components_->attachments->Stop();
  components_->work.Stop();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopped_ = true;
    changed_.notify_all();
  }
  if (closer_.joinable()) closer_.join();
}

}  // namespace mooring::manager
