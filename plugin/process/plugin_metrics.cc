#include "plugin/process/plugin_metrics.h"

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
#include "rpc/methods.h"

namespace mooring {
namespace {

using metrics::BoolSample;
using metrics::IntegerSample;
using metrics::Samples;
using Families = std::vector<prometheus::MetricFamily>;

constexpr char kIncomplete[] = "the metrics are not complete; this is logged once";
constexpr VolumeState kStates[] = {VolumeState::kCreating, VolumeState::kReady, VolumeState::kDeleting};

// By pool and state, with pools that are only in the records.
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

struct FamilyText {
  const char* name;
  const char* help;
};

Content ContentOf(const std::vector<PoolCount>& counts) {
  Content content;
  for (const PoolCount& count : counts) content.pools[count.pool][count.state] = {count.count, count.bytes};
  return content;
}

// A tmpfs volume takes memory only when it is written to. So its size counts as used.
std::uint64_t FreeIn(const Pool& pool, const BackendCapacity& room, std::uint64_t promised) {
  if (!pool.traits().takes_size_at_once) return room.available;
  return room.available - std::min(room.available, promised);
}

}  // namespace

struct PluginMetrics::Parts {
  explicit Parts(Sources in_sources) : sources(std::move(in_sources)) {}

  Families Collect() const;
  void AddState(Families& families) const;
  void AddContent(Families& families) const;
  void AddFigures(Families& families, const Content& content, const FamilyText& counted,
                  const FamilyText& measured) const;
  void AddRoom(Families& families, const Content& volumes) const;
  void AddUnfinished(Families& families, const Content& volumes, std::vector<UnfinishedRecord> records,
                     const std::vector<UnfinishedRecord>& more) const;
  void AddMounts(Families& families) const;
  // Includes pools that are only in the records; their backend is unknown.
  std::map<std::string, std::string_view> BackendsWith(const Content& content) const;

  const Sources sources;
  mutable UnfinishedAges unfinished;
  metrics::Exposition exposition{[this] { return Collect(); }};
  metrics::CallFamilies call_families{exposition.registry(), "mooring_plugin_rpc", "Calls of CSI"};
  metrics::CallMetrics rpcs{call_families, {}, MethodsOf(*csi::v1::ProbeRequest::descriptor()->file())};
};

Families PluginMetrics::Parts::Collect() const {
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
  Samples::Gauge("mooring_plugin_preflight_ok",
                 "1: the last check of the host (by the plugin or a Probe) found nothing missing.")
      .Add(BoolSample(sources.preflight().ok()))
      .MoveTo(families);
  Samples::Gauge("mooring_plugin_helper_up", "1: the mount helper runs, or the plugin mounts itself.")
      .Add(BoolSample(sources.helper_health().ok()))
      .MoveTo(families);
  Samples::Counter("mooring_plugin_helper_restarts_total", "Mount helpers started in place of one that had ended.")
      .Add(IntegerSample(sources.helper_restarts()))
      .MoveTo(families);
  Samples::Gauge("mooring_plugin_helper_calls_hanging",
                 "Calls of the mount helper that were abandoned and still hang in the kernel.")
      .Add(IntegerSample(sources.helper_hanging()))
      .MoveTo(families);
}

std::map<std::string, std::string_view> PluginMetrics::Parts::BackendsWith(const Content& content) const {
  std::map<std::string, std::string_view> backends;
  for (const auto& [pool, states] : content.pools) backends[pool] = "unknown";
  for (const Pool& pool : sources.pools.all()) backends[pool.name] = ToString(pool.kind);
  return backends;
}

// Reads volumes, snapshots and pools one directly after the other, so that the figures nearly fit together.
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
  AddFigures(
      families, of_volumes, {"mooring_plugin_volumes", "Volumes on record, inline ephemeral ones among them."},
      {"mooring_plugin_provisioned_bytes", "Sum of the sizes of the volumes of a pool; written data may be less."});
  AddFigures(
      families, ContentOf(*snapshots),
      {"mooring_plugin_snapshots", "Snapshots on record, members of groups among them."},
      {"mooring_plugin_snapshot_bytes", "Sum of the sizes of the snapshots of a pool; written data may be less."});
  AddUnfinished(families, of_volumes, *unfinished_volumes, *unfinished_snapshots);
  AddRoom(families, of_volumes);
}

void PluginMetrics::Parts::AddUnfinished(Families& families, const Content& volumes,
                                         std::vector<UnfinishedRecord> records,
                                         const std::vector<UnfinishedRecord>& more) const {
  records.insert(records.end(), more.begin(), more.end());
  const auto ages = unfinished.See(records, UnfinishedAges::Clock::now());
  Samples oldest = Samples::Gauge("mooring_plugin_unfinished_seconds",
                                  "Age of the oldest record in the state creating or deleting.");
  for (const auto& [pool, backend] : BackendsWith(volumes)) {
    const auto age = ages.find(pool);
    oldest.Add({{"pool", pool}, {"backend", backend}},
               age == ages.end() ? 0 : std::chrono::duration<double>(age->second).count());
  }
  oldest.MoveTo(families);
}

void PluginMetrics::Parts::AddFigures(Families& families, const Content& content, const FamilyText& counted,
                                      const FamilyText& measured) const {
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
  Samples up = Samples::Gauge("mooring_plugin_pool_up", "1: the space of the pool could be read for this scrape.");
  Samples all = Samples::Gauge("mooring_plugin_pool_capacity_bytes",
                               "Size of the pool's storage: a filesystem, the matching devices, or memory.");
  Samples free = Samples::Gauge("mooring_plugin_pool_free_bytes", "Free part of the capacity.");
  Samples used = Samples::Gauge("mooring_plugin_pool_used_bytes", "Used part of the capacity, by any user.");
  Samples low =
      Samples::Gauge("mooring_plugin_pool_nearly_full", "1: so little is free that writes to volumes will fail soon.");
  for (const Pool& pool : sources.pools.all()) {
    const Samples::Labels labels = {{"pool", pool.name}, {"backend", ToString(pool.kind)}};
    const absl::StatusOr<BackendCapacity> room = pool.backend->QuickCapacity();
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
                                  "Paths of this node where volumes are staged or published, by the records.");
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
