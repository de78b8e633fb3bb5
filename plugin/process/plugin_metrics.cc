#include <algorithm>
#include <chrono>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/status.h"
#include "base/version.h"
#include "csi.pb.h"
#include "metrics/call_metrics.h"
#include "metrics/exposition.h"
#include "metrics/samples.h"
#include "plugin/catalog/unfinished_ages.h"
#include "plugin/process/plugin_metrics.h"
#include "rpc/methods.h"

namespace mooring {
namespace {

using metrics::BoolSample;
using metrics::IntegerSample;
using metrics::Samples;
using Families = std::vector<prometheus::MetricFamily>;

constexpr char kIncomplete[] = "the metrics are not complete; this is said once";
constexpr VolumeState kStates[] = {VolumeState::kCreating, VolumeState::kReady, VolumeState::kDeleting};

// By pool and state; a pool that nobody named at the start (it is in the records only) among them.
struct Content {
  struct Figures {
    std::uint64_t count = 0, bytes = 0;
  };
  std::map<std::string, std::map<VolumeState, Figures>> pools;

  Figures Of(const std::string& pool, VolumeState state) const {
    const auto found = pools.find(pool);
    if (found == pools.end()) return {};
    const auto figures = found->second.find(state);
    return figures == found->second.end() ? Figures() : figures->second;
  }

  std::uint64_t BytesIn(const std::string& pool) const {
    std::uint64_t bytes = 0;
    for (const VolumeState state : kStates) bytes += Of(pool, state).bytes;
    return bytes;
  }
};

struct Words {
  const char* name;
  const char* help;
};

Content ContentOf(const std::vector<PoolCount>& counts) {
  Content content;
  for (const PoolCount& count : counts) content.pools[count.pool][count.state] = {count.count, count.bytes};
  return content;
}

// Memory is not taken before it is written to: there a volume counts with its size.
std::uint64_t FreeIn(const Pool& pool, const BackendCapacity& room, std::uint64_t promised) {
  if (pool.kind != BackendKind::kTmpfs) return room.available;
  return room.available - std::min(room.available, promised);
}

}  // namespace

struct PluginMetrics::Parts {
  explicit Parts(Sources in_sources) : sources(std::move(in_sources)) {}

  Families Look() const;
  void AddState(Families& families) const;
  void AddContent(Families& families) const;
  void AddFigures(Families& families, const Content& content, const Words& counted, const Words& measured) const;
  void AddRoom(Families& families, const Content& volumes) const;
  void AddUnfinished(Families& families, const Content& volumes, std::vector<UnfinishedRecord> records,
                     const std::vector<UnfinishedRecord>& more) const;
  void AddMounts(Families& families) const;
  // With those that only the records know, whose backend nobody knows any more.
  std::map<std::string, std::string_view> BackendsWith(const Content& content) const;

  const Sources sources;
  mutable UnfinishedAges unfinished;
  metrics::Exposition exposition{[this] { return Look(); }};
  metrics::CallFamilies call_families{exposition.registry(), "mooring_plugin_rpc", "Calls of CSI"};
  metrics::CallMetrics rpcs{call_families, {}, MethodsOf(*csi::v1::ProbeRequest::descriptor()->file())};
};

Families PluginMetrics::Parts::Look() const {
  Families found;
  AddState(found);
  AddContent(found);
  AddMounts(found);
  return found;
}

void PluginMetrics::Parts::AddState(Families& families) const {
  Samples::Gauge("mooring_plugin_build_info", "Always 1; the labels say what runs.")
      .Add({{"version", Version()}, {"commit", Commit()}}, 1)
      .MoveTo(families);
  Samples::Gauge("mooring_plugin_ready", "1: records and mounts have been compared since the start; calls are served.")
      .Add(BoolSample(sources.readiness.Now().ok()))
      .MoveTo(families);
  Samples::Gauge("mooring_plugin_surroundings_ok",
                 "1: nothing was missing that only others can mend, when the plugin or a Probe last looked.")
      .Add(BoolSample(sources.surroundings().ok()))
      .MoveTo(families);
  Samples::Gauge("mooring_plugin_helper_up", "1: there is a mount helper, or the plugin mounts itself.")
      .Add(BoolSample(sources.helper_health().ok()))
      .MoveTo(families);
  Samples::Counter("mooring_plugin_helper_restarts_total", "Mount helpers that took the place of one that had ended.")
      .Add(IntegerSample(sources.helper_restarts()))
      .MoveTo(families);
  Samples::Gauge("mooring_plugin_helper_calls_hanging",
                 "Calls of the mount helper that were given up and hang in the kernel still.")
      .Add(IntegerSample(sources.helper_hanging()))
      .MoveTo(families);
}

std::map<std::string, std::string_view> PluginMetrics::Parts::BackendsWith(const Content& content) const {
  std::map<std::string, std::string_view> backends;
  for (const auto& [pool, states] : content.pools) backends[pool] = "unknown";
  for (const Pool& pool : sources.pools.all()) backends[pool.name] = ToString(pool.kind);
  return backends;
}

// One reading of both, and of the pools after it: what they say is of one moment, nearly.
void PluginMetrics::Parts::AddContent(Families& families) const {
  const auto volumes = sources.catalog.CountByPool();
  const auto snapshots = sources.snapshots.CountByPool();
  const auto unfinished_volumes = sources.catalog.NameUnfinished();
  const auto unfinished_snapshots = sources.snapshots.NameUnfinished();
  absl::Status why = volumes.status();
  for (const absl::Status& status : {snapshots.status(), unfinished_volumes.status(), unfinished_snapshots.status()}) {
    why.Update(status);
  }
  Samples::Gauge("mooring_plugin_catalog_up", "1: the records of volumes and snapshots could be read for this scrape.")
      .Add(BoolSample(why.ok()))
      .MoveTo(families);
  if (!why.ok()) {
    log::Once(log::Level::kWarning, kIncomplete, {{"cause", Message(why)}});
    return;
  }
  const Content of_volumes = ContentOf(*volumes);
  AddFigures(families, of_volumes, {"mooring_plugin_volumes", "Volumes on record, inline ephemeral ones among them."},
             {"mooring_plugin_provisioned_bytes",
              "Sizes of the volumes of a pool together: what was promised, not what is written."});
  AddFigures(families, ContentOf(*snapshots),
             {"mooring_plugin_snapshots", "Snapshots on record, members of groups among them."},
             {"mooring_plugin_snapshot_bytes",
              "Sizes of the snapshots of a pool together: what was promised, not what is written."});
  AddUnfinished(families, of_volumes, *unfinished_volumes, *unfinished_snapshots);
  AddRoom(families, of_volumes);
}

void PluginMetrics::Parts::AddUnfinished(Families& families, const Content& volumes,
                                         std::vector<UnfinishedRecord> records,
                                         const std::vector<UnfinishedRecord>& more) const {
  records.insert(records.end(), more.begin(), more.end());
  const auto ages = unfinished.See(records, UnfinishedAges::Clock::now());
  Samples oldest = Samples::Gauge("mooring_plugin_unfinished_seconds",
                                  "For how long the oldest record that is creating or deleting has been that.");
  for (const auto& [pool, backend] : BackendsWith(volumes)) {
    const auto age = ages.find(pool);
    oldest.Add({{"pool", pool}, {"backend", backend}},
               age == ages.end() ? 0 : std::chrono::duration<double>(age->second).count());
  }
  oldest.MoveTo(families);
}

void PluginMetrics::Parts::AddFigures(Families& families, const Content& content, const Words& counted,
                                      const Words& measured) const {
  Samples count = Samples::Gauge(counted.name, counted.help);
  Samples bytes = Samples::Gauge(measured.name, measured.help);
  for (const auto& [pool, backend] : BackendsWith(content)) {
    for (const VolumeState state : kStates) {
      count.Add({{"pool", pool}, {"backend", backend}, {"state", StateText(state)}},
                IntegerSample(content.Of(pool, state).count));
    }
    bytes.Add({{"pool", pool}, {"backend", backend}}, IntegerSample(content.BytesIn(pool)));
  }
  count.MoveTo(families);
  bytes.MoveTo(families);
}

void PluginMetrics::Parts::AddRoom(Families& families, const Content& volumes) const {
  Samples up = Samples::Gauge("mooring_plugin_pool_up", "1: the room in the pool could be asked for this scrape.");
  Samples all = Samples::Gauge("mooring_plugin_pool_capacity_bytes",
                               "Size of what the pool lies on: a filesystem, the devices that match, the memory.");
  Samples free = Samples::Gauge("mooring_plugin_pool_free_bytes", "What of it is free to use.");
  Samples used = Samples::Gauge("mooring_plugin_pool_used_bytes", "What of it is not, whoever has it.");
  Samples low =
      Samples::Gauge("mooring_plugin_pool_nearly_full", "1: so little is free that writes to volumes will fail soon.");
  for (const Pool& pool : sources.pools.all()) {
    const Samples::Labels labels = {{"pool", pool.name}, {"backend", ToString(pool.kind)}};
    const absl::StatusOr<BackendCapacity> room = pool.backend->Glance();
    up.Add(labels, BoolSample(room.ok()));
    if (!room.ok()) continue;
    const std::uint64_t left = FreeIn(pool, *room, volumes.BytesIn(pool.name));
    all.Add(labels, IntegerSample(room->total));
    free.Add(labels, IntegerSample(left));
    used.Add(labels, IntegerSample(room->total - std::min(left, room->total)));
    low.Add(labels, BoolSample(!room->shortage.empty()));
  }
  for (Samples* samples : {&up, &all, &free, &used, &low}) samples->MoveTo(families);
}

void PluginMetrics::Parts::AddMounts(Families& families) const {
  const absl::StatusOr<std::vector<UseCount>> uses = sources.node.CountUses();
  Samples::Gauge("mooring_plugin_node_records_up", "1: the records of what is mounted could be read for this scrape.")
      .Add(BoolSample(uses.ok()))
      .MoveTo(families);
  if (!uses.ok()) {
    log::Once(log::Level::kWarning, kIncomplete, {{"cause", Message(uses.status())}});
    return;
  }
  Samples mounts = Samples::Gauge("mooring_plugin_mounts",
                                  "Paths of this node at which volumes are staged and published, by the records.");
  for (const VolumeUse::Role role : {VolumeUse::Role::kStage, VolumeUse::Role::kTarget}) {
    for (const AccessType access : {AccessType::kMount, AccessType::kBlock}) {
      const auto found = std::find_if(uses->begin(), uses->end(), [&](const UseCount& use) {
        return use.role == role && use.access_type == access;
      });
      mounts.Add({{"kind", role == VolumeUse::Role::kStage ? "staged" : "published"},
                  {"access", access == AccessType::kMount ? "mount" : "block"}},
                 found == uses->end() ? 0 : IntegerSample(found->count));
    }
  }
  mounts.MoveTo(families);
}

PluginMetrics::PluginMetrics(Sources sources) : parts_(std::make_unique<Parts>(std::move(sources))) {}
PluginMetrics::~PluginMetrics() = default;

CallRecorder& PluginMetrics::rpcs() { return parts_->rpcs; }

std::string PluginMetrics::Text() const { return parts_->exposition.Text(); }

}  // namespace mooring
