#include "plugin/process/server.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/host.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "base/version.h"
#include "metrics/scrape_server.h"
#include "mounter/guard/source_guard.h"
#include "plugin/api/controller_service.h"
#include "plugin/api/group_controller_service.h"
#include "plugin/api/identity_service.h"
#include "plugin/api/node_service.h"
#include "plugin/api/snapshot_metadata_service.h"
#include "plugin/api/unknown_calls.h"
#include "plugin/backends/pools.h"
#include "plugin/backends/registry.h"
#include "plugin/catalog/catalog_locks.h"
#include "plugin/catalog/snapshot_catalog.h"
#include "plugin/catalog/store/catalog_store.h"
#include "plugin/catalog/store/snapshot_store.h"
#include "plugin/catalog/volume_catalog.h"
#include "plugin/ephemeral/ephemeral_volumes.h"
#include "plugin/kubelet/kubelet_registration.h"
#include "plugin/model/volume_mount.h"
#include "plugin/node/node_volumes.h"
#include "plugin/node/uses/node_store.h"
#include "plugin/process/directories.h"
#include "plugin/process/export_pools.h"
#include "plugin/process/listen.h"
#include "plugin/process/plugin_metrics.h"
#include "plugin/process/preflight.h"
#include "plugin/process/shared_pools.h"

namespace mooring {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kRetryPause{5};
constexpr std::chrono::milliseconds kLastAnswers{500};
constexpr std::chrono::seconds kReconcilePatience{2};  // short: the next start reconciles again
constexpr std::chrono::seconds kPatienceBesideSilence{15};

// A container has a new host name at each start. The recorded id is that of the node that has the volumes.
absl::Status KeepNodeId(Config& config, CatalogStore& catalog) {
  MOORING_ASSIGN_OR_RETURN(const std::string recorded, catalog.KeepNodeId(config.node_id));
  if (recorded == config.node_id) return absl::OkStatus();
  if (config.node_id_given) {
    return FailedPrecondition("the volumes in {} were made on node {}, and --node-id is {}: give --node-id {}",
                              Quote(config.state_dir), Quote(recorded), Quote(config.node_id), recorded);
  }
  SetNodeId(config, recorded);
  return absl::OkStatus();
}

absl::Status StillUnderWay(const std::vector<std::string>& left, std::chrono::seconds patience) {
  const std::vector<std::string> tools = RunningPrograms();
  const std::string running = tools.empty() ? "" : fmt::format("; tools that run on: {}", fmt::join(tools, ", "));
  return absl::DeadlineExceededError(
      fmt::format("still under way after {} s: {}{}", patience.count(), fmt::join(left, ", "), running));
}

// A directory volume that a user other than root makes is marked. The mount helper then gives it to root, once.
mode_t NewDirectoryMode(const Config& config) {
  return config.mounter == MounterKind::kHelper && ::geteuid() != 0 ? kNeverStaged : 0755;
}

Pools MakePools(const Config& config, const SharedPools& shared, Mounter& mounter) {
  std::vector<Pool> pools;
  for (const PoolConfig& pool : config.pools) {
    const BackendType& type = TypeOf(pool.kind);
    const std::string directory = type.directory(pool, config.state_dir);
    const auto tag = shared.tags.find(pool.name);
    const auto availability = shared.availability.find(pool.name);
    const BackendParts parts = {mounter, pool.shared ? IfMissing::kRefuse : config.if_missing, NewDirectoryMode(config),
                                availability == shared.availability.end() ? nullptr : availability->second};
    const MountRequest own = type.own_mount == nullptr ? MountRequest() : type.own_mount(pool).request;
    pools.push_back({pool.name, pool.kind, type.make(pool, directory, parts), pool.overcommit,
                     tag == shared.tags.end() ? "" : tag->second, own.source, own.options,
                     availability == shared.availability.end() ? nullptr : availability->second, TraitsOf(pool)});
  }
  return Pools(std::move(pools));
}

std::function<absl::Status(const ControllerExpandSpec&, const Call&)> GrowthFor(const Config& config,
                                                                                VolumeCatalog& catalog,
                                                                                NodeVolumes& volumes) {
  if (!config.grow_on_node) return nullptr;
  return [&catalog, &volumes](const ControllerExpandSpec& spec, const Call& call) {
    return catalog.Expand(spec, call, [&volumes](const std::string& id) { return volumes.HasStagedDevice(id); })
        .status();
  };
}

VolumeCatalog::Settings CatalogSettings(const Config& config) {
  return {.node_id = config.node_id,
          .topology = config.topology,
          .max_volumes = config.max_volumes,
          .serves_node = config.serves_node()};
}

}  // namespace

// In the order of dependence: each member uses only members above it, and is destroyed before them.
struct PluginServer::Parts {
  Parts(const Config& config, Mounter& mounter, const Outside& outside, std::unique_ptr<CatalogStore> opened_catalog,
        std::unique_ptr<NodeStore> opened_node, std::unique_ptr<KeyedLocks> shared_locks, SharedPools shared)
      : catalog_store(std::move(opened_catalog)),
        snapshot_store(catalog_store->files()),
        node_store(std::move(opened_node)),
        volume_locks(std::move(shared_locks)),
        presence(std::move(shared.presence)),
        pools(MakePools(config, shared, mounter)),
        has_snapshots(pools.AnyCan(&BackendTraits::snapshots)),
        has_snapshot_blocks(pools.AnyCan(&BackendTraits::snapshot_blocks)),
        catalog(*catalog_store, snapshot_store, pools, *volume_locks, mounter, CatalogSettings(config)),
        snapshots(snapshot_store, catalog, pools, *volume_locks, mounter),
        node_volumes(mounter, catalog, *node_store, *volume_locks, config.propagation, config.staging_by),
        ephemeral_volumes(catalog, *catalog_store, node_volumes, *volume_locks),
        ask_mounter(outside.helper_health),
        preflight(config, mounter),
        plugin_metrics(MakeMetrics(outside)),
        rpc(readiness, plugin_metrics == nullptr ? nullptr : &plugin_metrics->rpcs()),
        identity_service(
            {config.driver_name, config.serves_controller(), pools.AnyCan(&BackendTraits::grows), has_snapshots,
             has_snapshot_blocks},
            readiness, [this] { return Health(); }, rpc),
        controller_service(catalog, snapshots, node_volumes,
                           {pools.AnyCan(&BackendTraits::grows) && !config.grow_on_node, has_snapshots,
                            pools.AnyCan(&BackendTraits::clones)},
                           rpc),
        group_controller_service(snapshots, rpc),
        snapshot_metadata_service(snapshots, rpc),
        node_service(
            rpc, node_volumes, ephemeral_volumes,
            {config.node_id, config.max_volumes, config.topology, config.mount_roots, config.root_links,
             pools.AnyCan(&BackendTraits::grows), config.volume_mount_group, GrowthFor(config, catalog, node_volumes)}),
        serves_node(config.serves_node()),
        serves_controller(config.serves_controller()) {
    if (config.kubelet_registration_dir.empty()) return;
    kubelet.emplace(KubeletRegistration::Settings{.directory = config.kubelet_registration_dir,
                                                  .driver_name = config.driver_name,
                                                  .endpoint = config.kubelet_endpoint});
  }

  std::unique_ptr<PluginMetrics> MakeMetrics(const Outside& outside);
  absl::Status ServeMetrics(std::optional<metrics::Listener> listener);
  absl::Status Listen(const Config& config);
  absl::Status Health();  // of the mount helper and of the host
  absl::Status Reconcile();
  void ReconcileUntilDone();
  void AnnounceOnceSeenOutside();
  void BeginInBackground();
  void OpenExports(const Config& config, const std::string& boot_id, Mounter& mounter, const Outside& outside);
  bool StopsWithin(std::chrono::seconds time);
  std::vector<std::string> SilentTags() const;
  std::vector<std::string> Drain(Clock::time_point start, std::chrono::seconds patience);
  bool AwaitReconciler(Clock::time_point deadline);  // false: it still runs
  void End();

  std::unique_ptr<CatalogStore> catalog_store;
  SnapshotStore snapshot_store;
  std::unique_ptr<NodeStore> node_store;
  std::unique_ptr<KeyedLocks> volume_locks;
  std::vector<UniqueFd> presence;  // SharedPools::presence
  Pools pools;
  const bool has_snapshots, has_snapshot_blocks;
  VolumeCatalog catalog;
  SnapshotCatalog snapshots;
  NodeVolumes node_volumes;
  EphemeralVolumes ephemeral_volumes;
  const std::function<absl::Status()> ask_mounter;
  HostPreflight preflight;
  Readiness readiness;
  std::unique_ptr<PluginMetrics> plugin_metrics;  // null without --metrics-listen
  Rpc rpc;
  IdentityService identity_service;
  ControllerService controller_service;
  GroupControllerService group_controller_service;
  SnapshotMetadataService snapshot_metadata_service;
  NodeService node_service;
  UnknownCalls unknown_calls;
  const bool serves_node;
  const bool serves_controller;
  std::unique_ptr<grpc::Server> server;
  std::unique_ptr<metrics::ScrapeServer> scrapes;  // null without --metrics-listen
  std::optional<KubeletRegistration> kubelet;

  std::mutex mutex;
  std::condition_variable changed;
  bool stopping = false;
  bool reconciler_ended = false;
  std::vector<std::unique_ptr<ExportPool>> exports;
  std::optional<HeapTrimmer> trimmer;  // made by the reconciler, so that its thread is confined
  std::thread reconciler;
};

std::unique_ptr<PluginMetrics> PluginServer::Parts::MakeMetrics(const Outside& outside) {
  if (!outside.metrics) return nullptr;
  return std::make_unique<PluginMetrics>(PluginMetrics::Sources{.pools = pools,
                                                                .catalog = *catalog_store,
                                                                .snapshots = snapshot_store,
                                                                .node = *node_store,
                                                                .readiness = readiness,
                                                                .helper_health = outside.helper_health,
                                                                .helper_restarts = outside.helper_restarts,
                                                                .helper_hanging = outside.helper_hanging,
                                                                .preflight = [this] { return preflight.Last(); }});
}

absl::Status PluginServer::Parts::ServeMetrics(std::optional<metrics::Listener> listener) {
  if (!listener) return absl::OkStatus();
  log::Info("serving metrics", {{"address", metrics::ToString(listener->address)}});
  MOORING_ASSIGN_OR_RETURN(
      scrapes, metrics::ScrapeServer::Start(*std::move(listener), [this] { return plugin_metrics->Text(); }, {}));
  return absl::OkStatus();
}

absl::Status PluginServer::Parts::Listen(const Config& config) {
  if (kubelet) MOORING_RETURN_IF_ERROR(kubelet->CheckSockets());
  grpc::ServerBuilder builder;
  builder.RegisterService(&identity_service);
  if (serves_controller) builder.RegisterService(&controller_service);
  if (serves_controller && has_snapshots) builder.RegisterService(&group_controller_service);
  if (serves_controller && has_snapshot_blocks) builder.RegisterService(&snapshot_metadata_service);
  if (serves_node) builder.RegisterService(&node_service);
  // This service adds two threads, which read the same sockets, so a call wakes more threads. gRPC alone refuses other
  // calls, too, but without a message. Where all services are served, nobody makes such calls.
  const bool serves_all = serves_node && serves_controller && has_snapshot_blocks;
  if (!serves_all) builder.RegisterCallbackGenericService(&unknown_calls);
  MOORING_ASSIGN_OR_RETURN(server, mooring::Listen(config, builder));
  return kubelet ? kubelet->Start() : absl::OkStatus();  // after Listen, so that its thread is confined
}

absl::Status PluginServer::Parts::Health() {
  MOORING_RETURN_IF_ERROR(ask_mounter());
  return preflight.Check();
}

absl::Status PluginServer::Parts::Reconcile() {
  if (serves_controller) {
    MOORING_RETURN_IF_ERROR(Annotate(snapshots.Reconcile(), "reconcile the snapshots"));
    MOORING_RETURN_IF_ERROR(Annotate(catalog.Reconcile(), "reconcile the catalog"));
  }
  if (!serves_node) return absl::OkStatus();
  MOORING_RETURN_IF_ERROR(Annotate(node_volumes.Reconcile(), "reconcile the mounts"));
  return Annotate(ephemeral_volumes.Reconcile(), "reconcile the ephemeral volumes");
}

void PluginServer::Parts::OpenExports(const Config& config, const std::string& boot_id, Mounter& mounter,
                                      const Outside& outside) {
  for (const PoolConfig& pool : config.pools) {
    const auto made = pools.Find(pool.name);
    if (!made.ok() || (*made)->availability == nullptr) continue;
    exports.push_back(std::make_unique<ExportPool>(
        ExportPool::Parts{config, boot_id, pool, (*made)->availability, *outside.resolver, mounter, *catalog_store,
                          *volume_locks, [this, name = pool.name, &tag = (*made)->tag] {
                            const auto is_of_pool = [&tag](const std::string& key) { return TagOfKey(key) == tag; };
                            absl::Status reconciled = volume_locks->EndLeftLocks(is_of_pool);
                            if (serves_controller) reconciled.Update(catalog.ReconcilePool(name));
                            if (serves_node) reconciled.Update(catalog.EndStaleUses(name));
                            return reconciled;
                          }}));
  }
}

void PluginServer::Parts::BeginInBackground() {
  ReconcileUntilDone();
  if (kubelet && readiness.Now().ok()) AnnounceOnceSeenOutside();
  ReleaseWhatTheStartUsed();
  trimmer.emplace();
  const std::lock_guard<std::mutex> lock(mutex);
  reconciler_ended = true;
  changed.notify_all();
}

void PluginServer::Parts::ReconcileUntilDone() {
  std::string said;
  for (;;) {
    const absl::Status status = Reconcile();
    preflight.Check().IgnoreError();  // logs what is missing
    if (status.ok()) {
      log::Info("ready");
    } else if (std::exchange(said, Message(status)) != Message(status)) {
      log::Error("cannot serve yet", {{"cause", Message(status)}});
    }
    // Callers that wait read UNAVAILABLE as "starting".
    readiness.Set(absl::IsUnavailable(status) ? WithCode(absl::StatusCode::kInternal, status) : status);
    if (status.ok() || StopsWithin(kRetryPause)) return;
  }
}

// Kubelet learns of the plugin only when it is ready, because pods would wait for it. Mounts must also be visible
// outside. Kubelet neither calls Probe nor checks its mounts, so pods would write into bare directories of the host.
// Other missing things delay nothing, because old volumes must still be unpublished.
void PluginServer::Parts::AnnounceOnceSeenOutside() {
  bool told = false;
  for (absl::Status seen = preflight.CheckSeenOutside(); !seen.ok(); seen = preflight.CheckSeenOutside()) {
    if (!told) {
      log::Warning("not offered to kubelet while its mounts may be invisible outside", {{"cause", Message(seen)}});
      told = true;
    }
    if (StopsWithin(kRetryPause)) return;
  }
  kubelet->Announce();
}

bool PluginServer::Parts::StopsWithin(std::chrono::seconds time) {
  std::unique_lock<std::mutex> lock(mutex);
  return changed.wait_for(lock, time, [this] { return stopping; });
}

bool PluginServer::Parts::AwaitReconciler(Clock::time_point deadline) {
  std::unique_lock<std::mutex> lock(mutex);
  return changed.wait_until(lock, deadline, [this] { return reconciler_ended; });
}

// The answers are sent by now. A client that does not read must not delay the end.
void PluginServer::Parts::End() {
  server->Shutdown(std::chrono::system_clock::now() + kLastAnswers);
  server->Wait();
  if (reconciler.joinable()) reconciler.join();
}

PluginServer::PluginServer(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

PluginServer::~PluginServer() {
  Stop(std::chrono::seconds(0)).IgnoreError();
  parts_->End();
}

absl::StatusOr<std::unique_ptr<PluginServer>> PluginServer::Start(const Config& asked, Mounter& mounter,
                                                                  Outside outside) {
  Config config = asked;
  MOORING_ASSIGN_OR_RETURN(const std::string boot_id, BootId());
  const std::string file = config.state_dir + "/catalog.db";
  MOORING_ASSIGN_OR_RETURN(std::unique_ptr<CatalogStore> catalog,
                           CatalogStore::Open(file, [&] { return CheckBeginsEmpty(file, config); }));
  MOORING_ASSIGN_OR_RETURN(std::unique_ptr<NodeStore> node, NodeStore::Open(config.state_dir + "/node.db", boot_id));
  MOORING_RETURN_IF_ERROR(KeepNodeId(config, *catalog));
  MOORING_ASSIGN_OR_RETURN(std::unique_ptr<KeyedLocks> locks, KeyedLocks::Shared(config.state_dir + "/lock"));
  SetNodeOfLabels(config.node_id);
  MOORING_ASSIGN_OR_RETURN(SharedPools shared, OpenSharedPools(config, boot_id, *catalog, *locks));
  auto parts = std::make_unique<Parts>(config, mounter, outside, std::move(catalog), std::move(node), std::move(locks),
                                       std::move(shared));
  MOORING_RETURN_IF_ERROR(parts->Listen(config));
  MOORING_RETURN_IF_ERROR(parts->ServeMetrics(std::move(outside.metrics)));
  log::Info("serving", {{"version", Version()},
                        {"driver", config.driver_name},
                        {"node", config.node_id},
                        {"socket", config.socket_path},
                        {"state", config.state_dir}});
  parts->OpenExports(config, boot_id, mounter, outside);
  parts->reconciler = std::thread(&Parts::BeginInBackground, parts.get());
  return std::unique_ptr<PluginServer>(new PluginServer(std::move(parts)));
}

// The tags of the pools whose servers are silent: "-TAG-" is in the ids of their volumes.
std::vector<std::string> PluginServer::Parts::SilentTags() const {
  std::vector<std::string> tags;
  for (const Pool& pool : pools.all()) {
    if (pool.availability != nullptr && pool.availability->IsSilent()) tags.push_back("-" + pool.tag + "-");
  }
  return tags;
}

// A call to a silent file server may hang until it answers. A stop that waits for such calls alone ends earlier.
std::vector<std::string> PluginServer::Parts::Drain(Clock::time_point start, std::chrono::seconds patience) {
  const std::vector<std::string> silent = SilentTags();
  const auto is_silent = [&silent](const std::string& call) {
    return std::any_of(silent.begin(), silent.end(),
                       [&](const std::string& tag) { return call.find(tag) != std::string::npos; });
  };
  std::vector<std::string> left = rpc.Drain(start + std::min(patience, kPatienceBesideSilence));
  if (std::all_of(left.begin(), left.end(), is_silent)) return left;
  return rpc.Drain(start + patience);
}

absl::Status PluginServer::Stop(std::chrono::seconds patience) {
  const Clock::time_point start = Clock::now();
  {
    const std::lock_guard<std::mutex> lock(parts_->mutex);
    parts_->stopping = true;
    parts_->changed.notify_all();
  }
  if (parts_->kubelet) parts_->kubelet->Withdraw();  // first, so that kubelet sends no more calls
  for (const auto& pool : parts_->exports) pool->Stop();
  parts_->volume_locks->Stop();
  parts_->node_volumes.Stop();
  std::vector<std::string> left = parts_->Drain(start, patience);
  if (!parts_->AwaitReconciler(start + std::min(patience, kReconcilePatience))) left.push_back("reconciling");
  // After the last call, so that a stop can be watched in the metrics.
  if (parts_->scrapes != nullptr && !parts_->scrapes->Stop(Clock::now() + kLastAnswers)) left.push_back("a scrape");
  return left.empty() ? absl::OkStatus() : StillUnderWay(left, patience);
}

}  // namespace mooring
