// What the plugin tells of itself, docs/operations.md. Only where somebody asked for it (--metrics-listen).
//
//   rpc.cc ── each call ──▶ rpcs() ──▶ counted, in memory
//   a scrape ──▶ Text() ──▶ looks at the stores, the pools and the helper: nothing is counted twice, and nothing that a
//                           call waits for is held meanwhile
#ifndef MOORING_PLUGIN_PROCESS_PLUGIN_METRICS_H_
#define MOORING_PLUGIN_PROCESS_PLUGIN_METRICS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "metrics/call_recorder.h"
#include "plugin/api/readiness.h"
#include "plugin/backends/pools.h"
#include "plugin/catalog/catalog_store.h"
#include "plugin/catalog/snapshot_store.h"
#include "plugin/node/node_store.h"

namespace mooring {

class PluginMetrics {
 public:
  // All outlive it.
  struct Sources {
    const Pools& pools;
    CatalogStore& catalog;
    SnapshotStore& snapshots;
    NodeStore& node;
    const Readiness& readiness;
    std::function<absl::Status()> helper_health;
    std::function<std::uint64_t()> helper_restarts;
    std::function<std::size_t()> helper_hanging;
    std::function<absl::Status()> surroundings;  // as they were last found
  };

  explicit PluginMetrics(Sources sources);
  ~PluginMetrics();

  CallRecorder& rpcs();

  // The page. What cannot be looked at is left out, and the figure that says so is 0. A filesystem that hangs below a
  // pool holds up whoever asks for the page.
  std::string Text() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace mooring

#endif  // MOORING_PLUGIN_PROCESS_PLUGIN_METRICS_H_
